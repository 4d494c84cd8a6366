// Purpose:  print docs/configuration.md, for whoever changes the table.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include <cstdio>

#include "service/config/config.h"

int main()
{
    std::fputs(aotx::config_document().c_str(), stdout);
    return 0;
}

// The one translation unit that carries Catch2's main, so that no test pays for compiling it again.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

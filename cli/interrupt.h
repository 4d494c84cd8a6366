// Purpose:  Ctrl-C as something that can be waited for.
// Owns:     one pipe and the handler of SIGINT, for the whole process.
// Thread:   main.
// Lifetime: from catch_interrupts to the end of the process.
#pragma once

namespace aotx::cli {

// From now on SIGINT is counted instead of ending the process; the second one that nobody has taken
// still ends it, so that nothing can hang.
void catch_interrupts();

// Readable while an interrupt waits to be taken; -1 before catch_interrupts.
int interrupt_descriptor();

// Take what waits. Whether there was any.
bool take_interrupt();

// Wait until the time has passed, or an interrupt comes; whether one did. It is not taken.
bool wait_interrupt(int milliseconds);

}  // namespace aotx::cli

/* Purpose:  a symbol that a producer should have kept to itself; linked into one, it breaks the
 *           rule about exports and no other.
 * Owns:     nothing.
 * Thread:   any.
 * Lifetime: not applicable. */
__attribute__((visibility("default"))) int flashrt_leaked_symbol(void);

__attribute__((visibility("default"))) int flashrt_leaked_symbol(void)
{
    return 0;
}

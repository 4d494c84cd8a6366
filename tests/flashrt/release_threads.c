/* Purpose:  release an object from native threads, for tests of producers in other languages.
 * Owns:     nothing.
 * Thread:   starts and joins its own.
 * Lifetime: the call. */
#include <pthread.h>
#include <stdint.h>

struct Release {
    void (*release)(void* owner);
    void* owner;
};

static void* run(void* argument)
{
    const struct Release* release = (const struct Release*)argument;
    release->release(release->owner);
    return 0;
}

void release_from_threads(void (*release)(void* owner), void* owner, uint32_t count);

/* At most 16 threads at the same time. */
void release_from_threads(void (*release)(void* owner), void* owner, uint32_t count)
{
    struct Release shared = {release, owner};
    pthread_t threads[16];
    uint32_t started = 0;
    while (started < count && started < 16 &&
           pthread_create(&threads[started], 0, run, &shared) == 0) {
        started++;
    }
    for (uint32_t at = 0; at < started; at++) {
        pthread_join(threads[at], 0);
    }
}

/* Purpose:  the face of the archived consumer for the test that runs it.
 * Owns:     nothing.
 * Thread:   one.
 * Lifetime: the call. */
#ifndef FLASHRT_OLD_CONSUMER_H
#define FLASHRT_OLD_CONSUMER_H

#if defined(__cplusplus)
extern "C" {
#endif

/* Load, feed x to port 0, step, read y. 0 done; 1 no library; 2 no runtime; 3 its size is refused;
 * else the verbs' answers. */
int old_consumer_run(const char* library, const char* config_json, int exact_size, float x,
                     float* y);

#if defined(__cplusplus)
}
#endif

#endif

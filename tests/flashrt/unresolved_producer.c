/* Purpose:  a producer that calls a function which nobody defines: it must be refused when it is
 *           loaded, not when the call comes.
 * Owns:     nothing.
 * Thread:   any.
 * Lifetime: not applicable. */
#include <flashrt/model_runtime.h>

int flashrt_defined_nowhere(void);

__attribute__((visibility("default"))) int frt_model_runtime_open_v1(const char* config_json,
                                                                     frt_model_runtime_v1** out);

__attribute__((visibility("default"))) int frt_model_runtime_open_v1(const char* config_json,
                                                                     frt_model_runtime_v1** out)
{
    (void)config_json;
    *out = NULL;
    return flashrt_defined_nowhere();
}

// Purpose:  load a producer's shared object, open a model runtime, and adopt it: every gate before
//           the first use, every verb callable after.
// Owns:     a LoadedModel owns one reference to the runtime and the library under it.
// Thread:   one LoadedModel, one thread at a time; the runtime's own rules hold for its verbs.
// Lifetime: from open to close; the runtime is released first and the library closed last.
//
// C++17, header only, with or without exceptions and RTTI. Link nothing but the C library.
#ifndef FLASHRT_LOADER_HPP
#define FLASHRT_LOADER_HPP

#include "detail/gates.hpp"
#include "detail/stubs.hpp"

extern "C++" {

#include <dlfcn.h>

namespace frt {

// Where a load ended. Append only.
enum class LoadStatus : int {
    loaded = 0,
    arguments = -1,  // a path or a configuration is missing, or something is loaded already
    library = -2,    // the dynamic loader refused the file
    symbol = -3,     // the file exports no frt_model_runtime_open_v1
    factory = -4,    // the producer refused; factory_code tells its own code
    gate = -5,       // version, size or a required field of the object is wrong
    // No stages, plan or step to run, or more than one of them; or a context whose graphs nothing
    // names, because step or OPAQUE stages alone run the model.
    authority = -6,
    memory = -7
};

// What runs an adopted model.
enum class Authority : int { none = 0, stages = 1, plan = 2, step = 3 };

// One library and the one object that it made: opened, judged, and closed in the right order.
class LoadedModel {
public:
    LoadedModel() = default;
    ~LoadedModel() { close(); }
    LoadedModel(const LoadedModel&) = delete;
    LoadedModel& operator=(const LoadedModel&) = delete;

    // Load and adopt. config_json goes to the producer untouched. On failure nothing stays loaded
    // and reason() says why, naming the field; the one exception is an object whose layout cannot
    // be trusted: it cannot be released, so its library stays mapped. [setup]
    LoadStatus open(const char* library_path, const char* config_json);

    // Adopt a runtime that is already at hand. On success this object retains it once and the
    // caller keeps its own reference. [setup]
    LoadStatus adopt(const frt_model_runtime_v1* runtime);

    // Release the runtime, then close the library. Allowed at any time, also twice.
    void close();

    // The adopted runtime, borrowed until close, or nullptr. No verb and no query_extension is
    // NULL, whatever the producer left out; struct_size is at least
    // FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE.
    const frt_model_runtime_v1* runtime() const
    {
        return original_ == nullptr ? nullptr : &view_.model;
    }
    // The producer's own object, for tools that inspect it. Borrowed until close, or nullptr.
    const frt_model_runtime_v1* original() const { return original_; }

    Authority authority() const { return authority_; }
    // The generic plan when authority() is plan, else nullptr. Borrowed until close.
    const frt_generic_stage_plan_ext_v1* plan() const { return plan_; }
    // One sentence about the last failure; "" after a success. Never nullptr.
    const char* reason() const { return reason_; }
    // What the producer's factory answered at the last open.
    int factory_code() const { return factory_code_; }

private:
    // The runtime with stubs in place of what is missing. query_extension must hand the producer
    // its own object, so the view remembers it.
    struct View {
        frt_model_runtime_v1 model;  // first, so that a pointer to it is a pointer to the view
        const frt_model_runtime_v1* original;
    };

    static int view_query(const frt_model_runtime_v1* runtime, uint64_t id, uint32_t min_version,
                          const void** out);
    LoadStatus fail(LoadStatus status);
    LoadStatus call_factory(const char* config_json);
    LoadStatus find_authority(const frt_model_runtime_v1* runtime);
    void take(const frt_model_runtime_v1* runtime);
    static bool releasable(const frt_model_runtime_v1* runtime);

    View view_ = {};
    const frt_model_runtime_v1* original_ = nullptr;
    const frt_generic_stage_plan_ext_v1* plan_ = nullptr;
    Authority authority_ = Authority::none;
    void* library_ = nullptr;
    int factory_code_ = 0;
    char reason_[frt_detail::kRefusalBytes] = {};
};

inline LoadStatus LoadedModel::fail(LoadStatus status)
{
    memcpy(reason_, frt_detail::refusal_text(), sizeof reason_);
    return status;
}

inline bool LoadedModel::releasable(const frt_model_runtime_v1* runtime)
{
    return runtime != nullptr && frt_detail::gate_model_stamp(runtime) == 0 &&
           runtime->release != nullptr;
}

inline LoadStatus LoadedModel::open(const char* library_path, const char* config_json)
{
    if (library_path == nullptr || library_path[0] == '\0' || config_json == nullptr) {
        frt_detail::refuse("a library path and a configuration are needed");
        return fail(LoadStatus::arguments);
    }
    if (library_ != nullptr || original_ != nullptr) {
        frt_detail::refuse("a model is loaded already");
        return fail(LoadStatus::arguments);
    }
    reason_[0] = '\0';
    factory_code_ = 0;
    // NOW: a missing symbol shows here and not in a tick. LOCAL: producers never see each other.
    library_ = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
        const char* text = dlerror();
        frt_detail::refuse("%s", text != nullptr ? text : "the library cannot be loaded");
        return fail(LoadStatus::library);
    }
    const LoadStatus status = call_factory(config_json);
    if (status != LoadStatus::loaded && library_ != nullptr) {
        dlclose(library_);
        library_ = nullptr;
    }
    return status;
}

inline LoadStatus LoadedModel::call_factory(const char* config_json)
{
    void* symbol = dlsym(library_, FRT_MODEL_RUNTIME_OPEN_V1_SYMBOL);
    if (symbol == nullptr) {
        frt_detail::refuse("the library does not export %s", FRT_MODEL_RUNTIME_OPEN_V1_SYMBOL);
        return fail(LoadStatus::symbol);
    }
    frt_model_runtime_v1* runtime = nullptr;
    factory_code_ = reinterpret_cast<frt_model_runtime_open_v1_fn>(symbol)(config_json, &runtime);
    if (factory_code_ != 0 || runtime == nullptr) {
        if (releasable(runtime)) {
            runtime->release(runtime->owner);
        }
        frt_detail::refuse("the producer answered %d%s", factory_code_,
                           factory_code_ == 0 ? " and no runtime" : "");
        return fail(LoadStatus::factory);
    }
    const LoadStatus status = adopt(runtime);
    if (status == LoadStatus::loaded) {
        runtime->release(runtime->owner);  // the factory's reference; adopt holds its own
        return status;
    }
    if (releasable(runtime)) {
        runtime->release(runtime->owner);
    } else {
        library_ = nullptr;  // never released, so its code must stay
    }
    return status;
}

inline LoadStatus LoadedModel::adopt(const frt_model_runtime_v1* runtime)
{
    if (original_ != nullptr) {
        frt_detail::refuse("a model is loaded already");
        return fail(LoadStatus::arguments);
    }
    reason_[0] = '\0';
    if (frt_detail::gate_model(runtime) != 0 || frt_detail::gate_anchor(runtime->exp) != 0 ||
        frt_detail::check_foreign_ports(runtime) != 0 ||
        frt_detail::check_foreign_stages(runtime) != 0 ||
        frt_detail::check_staged_verbs(runtime->ports, runtime->n_ports, runtime->verbs) != 0) {
        return fail(LoadStatus::gate);
    }
    const LoadStatus status = find_authority(runtime);
    if (status == LoadStatus::loaded) {
        take(runtime);
    } else {
        plan_ = nullptr;
        authority_ = Authority::none;
    }
    return status;
}

inline LoadStatus LoadedModel::find_authority(const frt_model_runtime_v1* runtime)
{
    bool any_graph = false;
    bool any_opaque = false;
    if (frt_detail::query_plan(runtime, &plan_) != 0) {
        return fail(LoadStatus::authority);
    }
    if (plan_ != nullptr) {
        if (frt_detail::check_foreign_plan(runtime, plan_, &any_graph, &any_opaque) != 0) {
            return fail(LoadStatus::authority);
        }
        authority_ = Authority::plan;
    }
    if (runtime->n_stages > 0) {
        if (plan_ != nullptr) {
            frt_detail::refuse("legacy stages and a generic plan exclude each other");
            return fail(LoadStatus::authority);
        }
        authority_ = Authority::stages;
    }
    if (authority_ == Authority::none) {
        if (runtime->verbs.step == nullptr) {
            frt_detail::refuse("nothing runs this model: no stages, no plan, verbs.step is NULL");
            return fail(LoadStatus::authority);
        }
        authority_ = Authority::step;
    }
    if (frt_detail::check_resources_run(runtime->exp, authority_ == Authority::stages || any_graph,
                                        authority_ == Authority::plan) != 0) {
        return fail(LoadStatus::authority);
    }
    return LoadStatus::loaded;
}

inline void LoadedModel::take(const frt_model_runtime_v1* runtime)
{
    // The prefix only: a producer of 128 bytes may end where memory ends.
    memcpy(&view_.model, runtime, FRT_MODEL_RUNTIME_V1_BASE_SIZE);
    view_.model.struct_size = sizeof view_.model;
    frt_detail::fill_stubs(&view_.model.verbs);
    view_.model.query_extension = view_query;
    view_.original = runtime;
    original_ = runtime;
    runtime->retain(runtime->owner);
}

inline int LoadedModel::view_query(const frt_model_runtime_v1* runtime, uint64_t id,
                                   uint32_t min_version, const void** out)
{
    if (out != nullptr) {
        *out = nullptr;
    }
    if (runtime == nullptr || out == nullptr || min_version == 0) {
        return FRT_VERB_INVALID;
    }
    const View* view = reinterpret_cast<const View*>(runtime);
    return frt_detail::query_runtime(view->original, id, min_version, out);
}

inline void LoadedModel::close()
{
    if (original_ != nullptr) {
        original_->release(original_->owner);
    }
    original_ = nullptr;
    plan_ = nullptr;
    authority_ = Authority::none;
    view_ = {};
    if (library_ != nullptr) {
        dlclose(library_);
    }
    library_ = nullptr;
}

}  // namespace FRT_HIDDEN
}  // extern "C++"

#endif

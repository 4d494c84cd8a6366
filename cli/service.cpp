// Purpose:  `aotxctl models`, `capabilities`, `telemetry` and `health`: documents of the service.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cli/connection.h"
#include "cli/context.h"
#include "cli/device.h"
#include "cli/failure.h"
#include "cli/terminal.h"

namespace aotx::cli {
namespace {

int models(const Context& context, const ConnectionOptions& options)
{
    const std::string text = open_device(options)->models();
    const JsonDocument document(text, kExitProtocol, "the list of models");
    if (context.json) {
        print_json(document.minified());
        return kExitDone;
    }
    const JsonValue* const list = document.root().find("data");
    if (list == nullptr) {
        throw Failure(kExitProtocol, "the list of models holds no data");
    }
    for (const JsonValue& model : list->items) {
        const bool memory = model.flag_of("automatic_memory");
        print_text(escape_controls(model.text_of("id"), false) +
                   (memory ? "  (automatic memory)\n" : "\n"));
    }
    return kExitDone;
}

int capabilities(const Context& context, const ConnectionOptions& options)
{
    print_document(context, open_device(options)->capabilities(), "the capabilities");
    return kExitDone;
}

int telemetry(const Context& context, const ConnectionOptions& options)
{
    print_document(context, open_device(options)->telemetry(), "the telemetry");
    return kExitDone;
}

int health(const Context& context, const ConnectionOptions& options)
{
    print_document(context, open_device(options)->health(), "the health answer");
    return kExitDone;
}

void add_document_command(Command& program, Context& context, const char* name, const char* about,
                          const char* examples,
                          int (*run)(const Context&, const ConnectionOptions&))
{
    const auto options = std::make_shared<ConnectionOptions>();
    Command command = program.add(context, name, about, examples,
                                  [&context, options, run]() { return run(context, *options); });
    add_connection_options(&command, options.get());
}

}  // namespace

void add_service_commands(Command& program, Context& context)
{
    add_document_command(program, context, "models", "the models that the grant permits",
                         "  aotxctl models\n  aotxctl models --direct --config aotx.toml --json\n",
                         models);
    add_document_command(program, context, "capabilities", "limits, models and features",
                         "  aotxctl capabilities\n  aotxctl capabilities --json | jq .limits\n",
                         capabilities);
    add_document_command(program, context, "telemetry", "counters of the running epoch",
                         "  aotxctl telemetry\n  aotxctl telemetry --direct --config aotx.toml\n",
                         telemetry);
    add_document_command(program, context, "health", "does the service answer, is the device ready",
                         "  aotxctl health --url http://127.0.0.1:8081\n"
                         "  aotxctl health && echo up\n",
                         health);
}

}  // namespace aotx::cli

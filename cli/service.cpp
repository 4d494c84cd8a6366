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
        print_json(simdjson::minify(document.root()));
        return kExitDone;
    }
    simdjson::dom::array list;
    if (document.root()["data"].get(list) != simdjson::SUCCESS) {
        throw Failure(kExitProtocol, "the list of models holds no data");
    }
    for (const simdjson::dom::element model : list) {
        const bool memory = json_flag(model, "automatic_memory");
        print_text(escape_controls(json_text(model, "id"), false) +
                   (memory ? "  (automatic memory)\n" : "\n"));
    }
    return kExitDone;
}

int health(const Context& context, const ConnectionOptions& options)
{
    const std::string text = open_device(options)->health();
    // A health check of another program in front may answer plain text; its status counts.
    try {
        print_document(context, text, "the health answer");
    } catch (const Failure&) {
        context.json ? print_json("{\"status\":\"ok\"}") : print_text("status: ok\n");
    }
    return kExitDone;
}

void add_document_command(CLI::App& app, Context& context, const char* name, const char* about,
                          const char* examples, std::string (Device::*document)())
{
    const auto options = std::make_shared<ConnectionOptions>();
    CLI::App* const command =
        add_command(app, context, name, about, examples, [&context, options, document, name]() {
            print_document(context, ((*open_device(*options)).*document)(), name);
            return static_cast<int>(kExitDone);
        });
    add_connection_options(command, options.get());
}

}  // namespace

void add_service_commands(CLI::App& app, Context& context)
{
    const auto models_options = std::make_shared<ConnectionOptions>();
    CLI::App* const list =
        add_command(app, context, "models", "the models that the grant permits",
                    "  aotxctl models\n  aotxctl models --direct --config aotx.toml --json\n",
                    [&context, models_options]() { return models(context, *models_options); });
    add_connection_options(list, models_options.get());
    add_document_command(app, context, "capabilities", "limits, models and features",
                         "  aotxctl capabilities\n  aotxctl capabilities --json | jq .limits\n",
                         &Device::capabilities);
    add_document_command(app, context, "telemetry", "counters of the running epoch",
                         "  aotxctl telemetry\n  aotxctl telemetry --direct --config aotx.toml\n",
                         &Device::telemetry);
    const auto health_options = std::make_shared<ConnectionOptions>();
    CLI::App* const alive =
        add_command(app, context, "health", "does the service answer, and is the device ready",
                    "  aotxctl health --url http://127.0.0.1:8081\n  aotxctl health && echo up\n",
                    [&context, health_options]() { return health(context, *health_options); });
    add_connection_options(alive, health_options.get());
}

}  // namespace aotx::cli

// Purpose:  `aotxctl token`: make the credential of a client and the hash that the service keeps.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "aotx/handle.h"
#include "aotx/packet.h"
#include "cli/context.h"
#include "cli/failure.h"
#include "cli/terminal.h"
#include "service/base/digest.h"
#include "service/base/fd.h"

namespace aotx::cli {
namespace {

constexpr size_t kTokenRandomBytes = 32;

struct TokenArguments {
    std::string name = "client";
    std::string id;
    std::string out;
};

std::string hex(const uint8_t* bytes, size_t bytes_count)
{
    std::string text(2 * bytes_count, '0');
    aotx_hex_encode(bytes, bytes_count, text.data());
    return text;
}

// A credential is never written over: the old one may still be in use.
void write_new(const std::string& path, const std::string& text)
{
    const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const bool written = file.valid() && ::write(file.get(), text.data(), text.size()) ==
                                             static_cast<ssize_t>(text.size());
    if (!written) {
        throw Failure(kExitInput, path + ": " + std::strerror(errno));
    }
}

void check_id(const std::string& id)
{
    uint8_t bytes[AOTX_ID_BYTES] = {};
    const bool fits = id.size() == 2 * AOTX_ID_BYTES &&
                      aotx_hex_decode(id.data(), bytes, AOTX_ID_BYTES) == AOTX_OK;
    if (!fits || aotx_is_zero(bytes, AOTX_ID_BYTES)) {
        throw Failure(kExitUsage, "--id takes 32 lower-case hex digits that are not all zero");
    }
}

void check_name(const std::string& name)
{
    for (const char c : name) {
        if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            throw Failure(kExitUsage, "--name takes no quote, backslash or control character");
        }
    }
}

int token_new(const Context& context, const TokenArguments& arguments)
{
    uint8_t secret[kTokenRandomBytes] = {};
    uint8_t identity[AOTX_ID_BYTES] = {};
    uint8_t digest[kSha256Bytes] = {};
    check_name(arguments.name);
    random_bytes(secret, sizeof secret);
    random_bytes(identity, sizeof identity);
    const std::string token = "aotx-" + hex(secret, sizeof secret);
    const std::string id = arguments.id.empty() ? hex(identity, sizeof identity) : arguments.id;
    check_id(id);
    sha256(token.data(), token.size(), digest);
    const std::string digest_text = hex(digest, sizeof digest);
    if (!arguments.out.empty()) {
        write_new(arguments.out, token + "\n");
    }
    if (context.json) {
        JsonWriter json;
        json.begin_object().key("token");
        arguments.out.empty() ? json.text(token) : json.null();
        json.key("token_file");
        arguments.out.empty() ? json.null() : json.text(arguments.out);
        json.key("name").text(arguments.name).key("id").text(id);
        json.key("token_sha256").text(digest_text).end_object();
        print_json(json.str());
        return kExitDone;
    }
    // Only the block for the configuration goes to standard output when the token goes to a file,
    // so that it can be appended as it is.
    if (arguments.out.empty()) {
        print_text("# token, for the client alone: " + token + "\n");
    }
    print_text("[[principals]]\nname = \"" + arguments.name + "\"\nid = \"" + id +
               "\"\ntoken_sha256 = [\"" + digest_text + "\"]\n");
    return kExitDone;
}

}  // namespace

void add_token_command(Command& program, Context& context)
{
    Command token = program.add_family("token", "make credentials");
    const auto arguments = std::make_shared<TokenArguments>();
    Command make =
        token.add(context, "new", "make a token and the configuration block that knows it",
                  "  aotxctl token new --name laptop\n"
                  "  aotxctl token new --name laptop --out laptop.token >> aotx.toml\n"
                  "  aotxctl token new --id 0123456789abcdef0123456789abcdef   (rotation)\n",
                  [&context, arguments]() { return token_new(context, *arguments); });
    make.option("--name", &arguments->name, "name of the principal").show_default();
    make.option("--id", &arguments->id, "ID of the principal, 32 hex digits; random if absent");
    make.option("--out", &arguments->out, "write the token to this new file, mode 0600");
}

}  // namespace aotx::cli

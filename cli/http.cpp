// Purpose:  the HTTP client on libcurl.
// Owns:     curl handles, one for calls and one for the stream, so that a call can be made while a
//           stream runs.
// Thread:   main.
// Lifetime: one per command.
#include "cli/http.h"

#include <curl/curl.h>

#include <cstring>

#include "cli/failure.h"
#include "cli/interrupt.h"
#include "service/config/config.h"

namespace aotx::cli {
namespace {

constexpr size_t kBodyBytesMax = size_t{64} << 20;
constexpr long kConnectMilliseconds = 10000;
constexpr long kCallSeconds = 330;  // above the gateway's own limit for one operation
constexpr int kPollMilliseconds = 1000;

// Where the bytes of one transfer go.
struct Sink {
    HttpAnswer* answer;
    CURL* curl;
    const std::function<bool(std::string_view)>* take;  // null: collect
    bool ended;
};

size_t on_bytes(char* bytes, size_t size, size_t count, void* user)
{
    Sink* const sink = static_cast<Sink*>(user);
    const size_t bytes_count = size * count;
    long status = 0;
    curl_easy_getinfo(sink->curl, CURLINFO_RESPONSE_CODE, &status);
    if (sink->take != nullptr && status == 200) {
        if (!(*sink->take)({bytes, bytes_count})) {
            sink->ended = true;
            return 0;
        }
        return bytes_count;
    }
    if (sink->answer->body.size() + bytes_count > kBodyBytesMax) {
        return 0;
    }
    sink->answer->body.append(bytes, bytes_count);
    return bytes_count;
}

struct HeaderList {
    curl_slist* list = nullptr;
    ~HeaderList() { curl_slist_free_all(list); }
    void add(const std::string& line)
    {
        curl_slist* const longer = curl_slist_append(list, line.c_str());
        list = longer == nullptr ? list : longer;
    }
};

void read_result(CURL* curl, CURLcode code, const char* detail, bool ended, HttpAnswer* answer)
{
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
    curl_off_t retry_after = 0;
    curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
    answer->retry_after_seconds = static_cast<uint32_t>(retry_after < 0 ? 0 : retry_after);
    if (code != CURLE_OK && !ended) {
        answer->failure = detail[0] == '\0' ? curl_easy_strerror(code) : detail;
    }
}

}  // namespace

struct HttpClient::State {
    CURL* call = nullptr;
    CURL* stream = nullptr;
    CURLM* multi = nullptr;
    std::string token;
    std::string ca_file;
    std::string unix_path;  // empty: TCP

    ~State()
    {
        if (multi != nullptr) {
            curl_multi_cleanup(multi);
        }
        curl_easy_cleanup(call);
        curl_easy_cleanup(stream);
    }

    void prepare(CURL* curl, const std::string& url, HeaderList* headers, char* detail) const
    {
        curl_easy_reset(curl);
        detail[0] = '\0';
        curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
        curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
        // The token must reach the gateway and nobody between, whatever the environment says.
        curl_easy_setopt(curl, CURLOPT_PROXY, "");
        curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, kConnectMilliseconds);
        curl_easy_setopt(curl, CURLOPT_USERAGENT, "aotxctl");
        if (!unix_path.empty()) {
            curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, unix_path.c_str());
        }
        if (!ca_file.empty()) {
            curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file.c_str());
        }
        if (!token.empty()) {
            headers->add("Authorization: Bearer " + token);
        }
        // curl would wait for 100-continue on larger bodies; the answer decides soon enough.
        headers->add("Expect:");
    }
};

HttpClient::HttpClient(const std::string& base, const std::string& token,
                       const std::string& ca_file)
    : base_(address_is_unix(base) ? "http://localhost" : base), state_(std::make_unique<State>())
{
    if (address_is_unix(base)) {
        state_->unix_path = base.substr(kUnixAddress.size());
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    state_->call = curl_easy_init();
    state_->stream = curl_easy_init();
    state_->multi = curl_multi_init();
    state_->token = token;
    state_->ca_file = ca_file;
    if (state_->call == nullptr || state_->stream == nullptr || state_->multi == nullptr) {
        throw Failure(kExitInternal, "the HTTP client cannot start");
    }
}

HttpClient::~HttpClient() = default;

HttpAnswer HttpClient::call(const char* method, const std::string& path, const std::string* body)
{
    CURL* const curl = state_->call;
    HttpAnswer answer;
    HeaderList headers;
    char detail[CURL_ERROR_SIZE];
    Sink sink = {&answer, curl, nullptr, false};
    state_->prepare(curl, base_ + path, &headers, detail);
    if (body != nullptr) {
        headers.add("Content-Type: application/json");
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body->size()));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->data());
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.list);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, kCallSeconds);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &sink);
    read_result(curl, curl_easy_perform(curl), detail, false, &answer);
    return answer;
}

HttpAnswer HttpClient::stream(const std::string& path, const std::vector<std::string>& lines,
                              const std::function<bool(std::string_view)>& take,
                              const std::function<bool()>& interrupted)
{
    CURL* const curl = state_->stream;
    HttpAnswer answer;
    HeaderList headers;
    char detail[CURL_ERROR_SIZE];
    Sink sink = {&answer, curl, &take, false};
    state_->prepare(curl, base_ + path, &headers, detail);
    for (const std::string& line : lines) {
        headers.add(line);
    }
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.list);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &sink);
    curl_multi_add_handle(state_->multi, curl);
    int running = 1;
    bool ended = false;
    while (running != 0 && !ended) {
        curl_multi_perform(state_->multi, &running);
        curl_waitfd extra = {interrupt_descriptor(), CURL_WAIT_POLLIN, 0};
        const unsigned extras = extra.fd >= 0 ? 1 : 0;
        if (running != 0) {
            curl_multi_poll(state_->multi, &extra, extras, kPollMilliseconds, nullptr);
        }
        if (take_interrupt() && !interrupted()) {
            ended = true;
        }
    }
    CURLcode code = CURLE_OK;
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(state_->multi, &left)) {
        code = message->msg == CURLMSG_DONE ? message->data.result : code;
    }
    read_result(curl, code, detail, ended || sink.ended, &answer);
    curl_multi_remove_handle(state_->multi, curl);
    return answer;
}

}  // namespace aotx::cli

// Purpose:  HTTP to the gateway: one call, or one stream that can be interrupted.
// Owns:     the curl handles.
// Thread:   main.
// Lifetime: one per command; connections are kept between calls.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace aotx::cli {

struct HttpAnswer {
    long status = 0;  // 0: no answer
    std::string body;
    uint32_t retry_after_seconds = 0;
    std::string failure;  // why there is no whole answer
};

class HttpClient {
public:
    // base: "http://host:port", or "unix:" and the path of a socket. token may be empty. Throws
    // Failure when curl cannot be set up.
    HttpClient(const std::string& base, const std::string& token, const std::string& ca_file);
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;

    // One request; body null for GET. No redirect is followed and no proxy asked. Never throws: an
    // answer with status 0 says in failure what went wrong.
    HttpAnswer call(const char* method, const std::string& path, const std::string* body);

    // GET a stream. Pieces of a 200 answer go to take, another answer's body is collected. take
    // returns false to end the stream. interrupted is called while an interrupt waits and returns
    // false to end the stream too. The answer's failure is empty when the server or take ended it.
    HttpAnswer stream(const std::string& path, const std::vector<std::string>& headers,
                      const std::function<bool(std::string_view)>& take,
                      const std::function<bool()>& interrupted);

    const std::string& base() const { return base_; }

private:
    struct State;
    std::string base_;
    std::unique_ptr<State> state_;
};

}  // namespace aotx::cli

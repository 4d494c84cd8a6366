// Purpose:  credentials, the grant file, Host and Origin by tables.
// Owns:     nothing.
// Thread:   the test's.
// Lifetime: one run.
#include "gateway_fixture.h"
#include "guard_page.h"

TEST_CASE("hosts of a loopback listener, exactly")
{
    struct Row {
        const char* host;
        bool permitted;
        bool permitted_listed;  // with "service.example" in the list
    };
    const Row rows[] = {{"localhost", true, true},
                        {"localhost:8081", true, true},
                        {"LOCALHOST:1", true, true},
                        {"127.0.0.1", true, true},
                        {"127.0.0.1:65535", true, true},
                        {"[::1]", true, true},
                        {"[::1]:8081", true, true},
                        {"evil.example", false, false},
                        {"", false, false},
                        {":8080", false, false},
                        {"localhost.evil.example", false, false},
                        {"127.0.0.1.evil.example", false, false},
                        {"[::1].evil.example", false, false},
                        {"[::1", false, false},
                        {"::1", false, false},
                        {"localhost:", false, false},
                        {"localhost:a", false, false},
                        {"localhost:80:80", false, false},
                        {"user@localhost", false, false},
                        {"localhost.", false, false},
                        {"127.1", false, false},
                        {"2130706433", false, false},
                        {"service.example", false, true},
                        {"Service.Example:443", false, true},
                        {"a.service.example", false, false}};
    aotx::HostRule plain;
    aotx::HostRule listed;
    listed.names = {"service.example"};
    for (const Row& row : rows) {
        INFO(row.host);
        const GuardCopy copy(row.host, std::string(row.host).size());
        const std::string_view host(copy.begin(), copy.size_bytes());
        CHECK(aotx::host_permitted(plain, host) == row.permitted);
        CHECK(aotx::host_permitted(listed, host) == row.permitted_listed);
    }
    aotx::HostRule open;
    open.loopback = false;
    CHECK(aotx::host_permitted(open, "anything.example:1"));
    CHECK_FALSE(aotx::host_permitted(open, ":1"));
    open.names = {"only.example"};
    CHECK(aotx::host_permitted(open, "only.example"));
    CHECK_FALSE(aotx::host_permitted(open, "localhost"));
}

TEST_CASE("origins: this service, or nobody")
{
    aotx::HostRule rule;
    rule.names = {"service.example"};
    for (const char* origin : {"http://localhost:8081", "http://127.0.0.1", "https://[::1]:1",
                               "https://service.example"}) {
        CHECK(aotx::origin_permitted(rule, origin));
    }
    for (const char* origin :
         {"null", "", "http://evil.example", "file://localhost", "http://localhost/path",
          "localhost", "http://", "http://localhost.evil.example"}) {
        INFO(origin);
        CHECK_FALSE(aotx::origin_permitted(rule, origin));
    }
    aotx::HostRule open;
    open.loopback = false;
    CHECK_FALSE(aotx::origin_permitted(open, "https://evil.example"));
}

TEST_CASE("tokens: every configured hash, and nothing else")
{
    aotx::Config config;
    const std::string tokens[] = {kTokenOne, kTokenTwo, kTokenBare};
    for (int i = 0; i < 2; i++) {
        aotx::PrincipalConfig principal;
        principal.name = i == 0 ? "a" : "b";
        principal.id = std::string(31, '0') + std::to_string(i + 1);
        principal.token_sha256 = {token_sha256(tokens[i])};
        config.principals.push_back(principal);
    }
    config.principals[0].token_sha256.push_back(token_sha256(tokens[2]));
    aotx::Access access;
    access.open(config);
    CHECK(access.authenticate("Bearer " + kTokenOne)->name == "a");
    CHECK(access.authenticate("bearer " + kTokenBare)->name == "a");
    CHECK(access.authenticate("BEARER " + kTokenTwo)->name == "b");
    const std::string longest(256, 'a');
    for (const std::string& value :
         {std::string(), std::string("Bearer"), std::string("Bearer "), kTokenOne,
          "Basic " + kTokenOne, "Bearer  " + kTokenOne, "Bearer " + kTokenOne + " ",
          "Bearer " + kTokenOne + "x", "Bearer " + kTokenOne.substr(1),
          "Bearer " + kTokenOne.substr(0, 31), "Bearer " + longest, "Bearer a" + longest,
          "Bearer " + kTokenOne + "\t"}) {
        INFO(value);
        const GuardCopy copy(value.data(), value.size());
        CHECK(access.authenticate({copy.begin(), copy.size_bytes()}) == nullptr);
    }
}

namespace {

std::string grant_frame(uint64_t revision, const std::vector<aotx_grant_row>& rows)
{
    aotx_request_head head = {};
    head.magic = AOTX_MAGIC;
    head.operation = AOTX_OPERATION_GRANTS;
    head.grant_revision = revision;
    head.count = static_cast<uint32_t>(rows.size());
    head.payload_bytes = static_cast<uint32_t>(rows.size() * sizeof(aotx_grant_row));
    std::string frame(reinterpret_cast<const char*>(&head), sizeof head);
    frame.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof rows[0]);
    return frame;
}

aotx_grant_row good_row(uint8_t principal)
{
    aotx_grant_row row = {};
    row.principal[15] = principal;
    row.revision = 5;
    row.actions = 1;
    row.model_mask = 4;
    row.output_tokens_max = 1;
    row.active_requests_max = 1;
    return row;
}

int check(const std::string& frame)
{
    const GuardCopy copy(frame.data(), frame.size());
    return aotx::grants_check(copy.begin(), copy.size_bytes());
}

}  // namespace

TEST_CASE("a grant file is taken whole or not at all")
{
    const std::vector<aotx_grant_row> rows = {good_row(1), good_row(2)};
    const std::string frame = grant_frame(5, rows);
    CHECK(check(frame) == AOTX_OK);
    for (size_t cut = 0; cut < frame.size(); cut++) {
        CHECK(check(frame.substr(0, cut)) != AOTX_OK);
    }
    CHECK(check(frame + "x") == AOTX_ERR_LENGTH);
    std::string other = frame;
    other[0] = 'B';
    CHECK(check(other) == AOTX_ERR_MAGIC);
    other = frame;
    other[8] = 2;  // another operation
    CHECK(check(other) == AOTX_ERR_MAGIC);
    other = frame;
    other[12] = 1;
    CHECK(check(other) == AOTX_ERR_NONZERO);
    other = frame;
    other[127] = 1;
    CHECK(check(other) == AOTX_ERR_NONZERO);
    const std::function<void(aotx_grant_row&)> breaks[] = {
        [](aotx_grant_row& row) { row.revision = 6; },
        [](aotx_grant_row& row) { row.principal[15] = 0; },
        [](aotx_grant_row& row) { row.principal[15] = 2; },
        [](aotx_grant_row& row) { row.actions = 0; },
        [](aotx_grant_row& row) { row.actions = 0x100; },
        [](aotx_grant_row& row) { row.model_mask = 2; },
        [](aotx_grant_row& row) { row.output_tokens_max = 0; },
        [](aotx_grant_row& row) { row.active_requests_max = 0; },
        [](aotx_grant_row& row) { row.zero_56 = 1; },
    };
    for (const auto& broken : breaks) {
        std::vector<aotx_grant_row> changed = rows;
        broken(changed[0]);
        CHECK(check(grant_frame(5, changed)) != AOTX_OK);
    }
}

TEST_CASE("a grant file that others can write is not read")
{
    Gateway gateway({}, false);
    aotx::Access access;
    access.open(gateway.config);
    CHECK(access.grants_load() == AOTX_OK);
    CHECK(access.revision() == 1);
    chmod(gateway.config.device.grants_path.c_str(), 0622);
    CHECK(access.grants_load() != AOTX_OK);
    CHECK(access.revision() == 1);
    std::ofstream(gateway.config.device.grants_path) << "junk";
    chmod(gateway.config.device.grants_path.c_str(), 0600);
    CHECK(access.grants_load() != AOTX_OK);
    CHECK(access.revision() == 1);
}

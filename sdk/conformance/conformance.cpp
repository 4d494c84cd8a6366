// Purpose:  run the groups, each in a child process, and collect what they find.
// Owns:     the children and their pipes.
// Thread:   one.
// Lifetime: the call.
#include "conformance.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <set>

#include "subject.h"

namespace flashrt::conformance {
namespace {

using Group = void (*)(Subject* subject);

constexpr Group kGroups[] = {check_factory, check_layout,   check_declarations, check_authority,
                             check_verbs,   check_payloads, check_running,      check_lifetime};

[[noreturn]] void child(Group group, const Options& options, int descriptor)
{
    // Handlers of the program would report a crash of the producer as its own.
    for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGALRM, SIGTERM}) {
        signal(signal_number, SIG_DFL);
    }
    alarm(options.group_seconds);
    Report report(descriptor);
    {
        Subject subject(options, &report);
        group(&subject);
    }
    report.begin("");
    // No destructors of the parent's objects: they are not this process's to end.
    _exit(0);
}

std::string read_all(int descriptor)
{
    std::string text;
    char piece[4096];
    ssize_t count = 0;
    while ((count = ::read(descriptor, piece, sizeof piece)) > 0) {
        text.append(piece, static_cast<size_t>(count));
    }
    return text;
}

Verdict verdict_of(const std::string& name)
{
    for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::warn}) {
        if (name == verdict_name(verdict)) {
            return verdict;
        }
    }
    return Verdict::skip;
}

// Lines of one group into findings; returns the rule that was announced last.
std::string parse(const std::string& text, std::vector<Finding>* findings)
{
    std::string last = "factory.opens";
    size_t at = 0;
    while (at < text.size()) {
        const size_t end = text.find('\n', at);
        const std::string line = text.substr(at, end - at);
        at = end == std::string::npos ? text.size() : end + 1;
        const size_t first = line.find('\t');
        const std::string kind = line.substr(0, first);
        const std::string rest = first == std::string::npos ? "" : line.substr(first + 1);
        if (kind == "begin") {
            last = rest;
            continue;
        }
        const size_t second = rest.find('\t');
        findings->push_back({verdict_of(kind), rest.substr(0, second), rest.substr(second + 1)});
    }
    return last;
}

void run_group(Group group, const Options& options, std::vector<Finding>* findings)
{
    int ends[2];
    if (pipe(ends) != 0) {
        findings->push_back({Verdict::fail, "factory.opens", "no pipe for a child process"});
        return;
    }
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        child(group, options, ends[1]);
    }
    close(ends[1]);
    const std::string last = parse(read_all(ends[0]), findings);
    close(ends[0]);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        findings->push_back({Verdict::fail, "factory.opens", "no child process"});
        return;
    }
    if (WIFSIGNALED(status)) {
        const bool hung = WTERMSIG(status) == SIGALRM;
        const char* name = strsignal(WTERMSIG(status));
        findings->push_back({Verdict::fail, last.empty() ? "lifetime.owner" : last,
                             hung ? "the producer did not return in time"
                                  : std::string("the producer crashed: ") + name});
    } else if (WEXITSTATUS(status) != 0) {
        findings->push_back({Verdict::fail, last.empty() ? "lifetime.owner" : last,
                             "the producer ended the process"});
    }
}

}  // namespace

std::vector<Finding> run(const Options& options)
{
    std::vector<Finding> findings;
    for (const Group group : kGroups) {
        run_group(group, options, &findings);
    }
    // Several cases of one rule are one finding: the first that is not a pass, or the pass.
    std::vector<Finding> merged;
    std::set<std::string> known;
    for (const Rule& rule : rules()) {
        const Finding* best = nullptr;
        for (const Finding& finding : findings) {
            if (finding.rule != rule.id) {
                continue;
            }
            const bool worse =
                best != nullptr && best->verdict != Verdict::fail &&
                (finding.verdict == Verdict::fail ||
                 (best->verdict == Verdict::pass && finding.verdict != Verdict::pass));
            best = best == nullptr || worse ? &finding : best;
        }
        if (best != nullptr) {
            merged.push_back(*best);
        } else {
            merged.push_back({Verdict::skip, rule.id, "not reached, or nothing to check it on"});
        }
    }
    return merged;
}

bool failed(const std::vector<Finding>& findings)
{
    for (const Finding& finding : findings) {
        if (finding.verdict == Verdict::fail) {
            return true;
        }
    }
    return false;
}

}  // namespace flashrt::conformance

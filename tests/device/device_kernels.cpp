// Purpose:  the kernels' own tests on a card: every kernel of the list against plain references.
// Owns:     one piece of registered memory that host and device address alike. What the tests take
// with new lies in it, and so does the stack of the thread that runs them, because they hand
// kernels pointers to both.
// Thread:   main, then one with its stack in that memory.
// Lifetime: one run; exit 77 where no card can be used.
#define CATCH_CONFIG_RUNNER
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

constexpr size_t kArenaBytes = size_t{1} << 31;
constexpr size_t kStackBytes = size_t{16} << 20;
constexpr size_t kHeadBytes = 256;  // before each piece; keeps the alignment of cudaMalloc
constexpr unsigned kClasses = 40;   // pieces of 2^n bytes

struct Piece {
    Piece* next;
    unsigned size_class;
};

unsigned char* arena = nullptr;
size_t arena_used = kStackBytes;
Piece* free_pieces[kClasses] = {};
thread_local bool in_arena = false;  // the test's thread alone

void* piece_take(size_t bytes)
{
    unsigned size_class = 9;
    while ((size_t{1} << size_class) < bytes + kHeadBytes) {
        size_class++;
    }
    Piece* piece = free_pieces[size_class];
    if (piece != nullptr) {
        free_pieces[size_class] = piece->next;
    } else {
        if (arena_used + (size_t{1} << size_class) > kArenaBytes) {
            std::fprintf(stderr, "the registered memory is too small for these tests\n");
            std::abort();
        }
        piece = reinterpret_cast<Piece*>(arena + arena_used);
        arena_used += size_t{1} << size_class;
        piece->size_class = size_class;
    }
    return reinterpret_cast<unsigned char*>(piece) + kHeadBytes;
}

bool arena_holds(const void* memory)
{
    const unsigned char* const at = static_cast<const unsigned char*>(memory);
    return arena != nullptr && at >= arena && at < arena + kArenaBytes;
}

struct Arguments {
    int count;
    char** words;
    int result;
};

void* run_tests(void* data)
{
    Arguments* const arguments = static_cast<Arguments*>(data);
    in_arena = true;
    arguments->result = Catch::Session().run(arguments->count, arguments->words);
    in_arena = false;
    return nullptr;
}

int give_up(const char* what, cudaError_t code)
{
    std::printf("%s: %s\n", what, cudaGetErrorString(code));
    return 77;
}

}  // namespace

void* operator new(size_t bytes)
{
    void* const memory = in_arena ? piece_take(bytes) : std::malloc(bytes == 0 ? 1 : bytes);
    if (memory == nullptr) {
        std::abort();
    }
    return memory;
}

void operator delete(void* memory) noexcept
{
    if (!arena_holds(memory)) {
        std::free(memory);
        return;
    }
    Piece* const piece = reinterpret_cast<Piece*>(static_cast<unsigned char*>(memory) - kHeadBytes);
    piece->next = free_pieces[piece->size_class];
    free_pieces[piece->size_class] = piece;
}

void operator delete(void* memory, size_t) noexcept
{
    operator delete(memory);
}

int main(int count, char** words)
{
    int cards = 0;
    const cudaError_t found = cudaGetDeviceCount(&cards);
    if (found != cudaSuccess || cards == 0) {
        return give_up("no card can be used", found);
    }
    void* const map = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        std::printf("the system gives no %zu bytes\n", kArenaBytes);
        return 77;
    }
    const cudaError_t registered =
        cudaHostRegister(map, kArenaBytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
    if (registered != cudaSuccess) {
        return give_up("host memory cannot be registered", registered);
    }
    arena = static_cast<unsigned char*>(map);
    pthread_attr_t attributes;
    pthread_t thread;
    Arguments arguments = {count, words, 1};
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, arena, kStackBytes) != 0 ||
        pthread_create(&thread, &attributes, run_tests, &arguments) != 0) {
        std::printf("no thread with its stack in registered memory\n");
        return 1;
    }
    pthread_join(thread, nullptr);
    std::fflush(stdout);
    _exit(arguments.result);  // statics of the tests lie in the arena; nothing else is left to do
}

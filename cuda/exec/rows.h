// Purpose:  the two containers of this room: a growing array whose lack of memory is an answer, and
//           a list through its own members.
// Owns:     Rows owns its block; a chain owns nothing.
// Thread:   one at a time.
// Lifetime: the owner's.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace aotx::exec {

// A growing array of plain rows; never shrinks.
template <typename Row>
class Rows {
public:
    Rows() = default;
    ~Rows() { std::free(rows_); }
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;

    // false: no memory, nothing changed.
    [[nodiscard]] bool push(const Row& row)
    {
        if (count_ == capacity_) {
            const size_t wanted = capacity_ == 0 ? 8 : capacity_ * 2;
            void* grown = std::realloc(rows_, wanted * sizeof(Row));
            if (grown == nullptr) {
                return false;
            }
            rows_ = static_cast<Row*>(grown);
            capacity_ = wanted;
        }
        rows_[count_] = row;
        count_++;
        return true;
    }
    void pop() { count_--; }
    size_t count() const { return count_; }
    Row& operator[](size_t index) { return rows_[index]; }
    const Row& operator[](size_t index) const { return rows_[index]; }

private:
    Row* rows_ = nullptr;
    size_t count_ = 0;
    size_t capacity_ = 0;
};

// Nodes carry `previous` and `next` of their own type; the chain is its first node.
template <typename Node>
void chain_add(Node** first, Node* node)
{
    node->previous = nullptr;
    node->next = *first;
    if (*first != nullptr) {
        (*first)->previous = node;
    }
    *first = node;
}

template <typename Node>
void chain_remove(Node** first, Node* node)
{
    (node->previous == nullptr ? *first : node->previous->next) = node->next;
    if (node->next != nullptr) {
        node->next->previous = node->previous;
    }
}

}  // namespace aotx::exec

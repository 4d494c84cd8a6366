// Purpose:  read which dynamic symbols a shared object defines, from its file.
// Owns:     nothing.
// Thread:   any.
// Lifetime: the call.
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "subject.h"

namespace flashrt::conformance {
namespace {

// A row of `Type` at an offset of the file; false outside it.
template <typename Row>
bool read_row(const std::string& file, uint64_t offset, Row* row)
{
    if (offset > file.size() || file.size() - offset < sizeof *row) {
        return false;
    }
    std::memcpy(row, file.data() + offset, sizeof *row);
    return true;
}

// Section headers of one ELF file; false when it is none that this machine loads.
bool read_sections(const std::string& file, std::vector<Elf64_Shdr>* sections)
{
    Elf64_Ehdr head;
    if (!read_row(file, 0, &head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(Elf64_Shdr)) {
        return false;
    }
    for (uint32_t at = 0; at < head.e_shnum; at++) {
        Elf64_Shdr section;
        if (!read_row(file, head.e_shoff + at * sizeof section, &section)) {
            return false;
        }
        sections->push_back(section);
    }
    return true;
}

bool is_exported(const Elf64_Sym& symbol)
{
    const unsigned binding = ELF64_ST_BIND(symbol.st_info);
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    return symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS && binding != STB_LOCAL &&
           (type == STT_FUNC || type == STT_OBJECT || type == STT_GNU_IFUNC);
}

}  // namespace

std::vector<std::string> exported_symbols(const std::string& path)
{
    std::vector<std::string> names;
    std::ifstream stream(path, std::ios::binary);
    const std::string file((std::istreambuf_iterator<char>(stream)),
                           std::istreambuf_iterator<char>());
    std::vector<Elf64_Shdr> sections;
    if (!read_sections(file, &sections)) {
        return names;
    }
    for (const Elf64_Shdr& section : sections) {
        if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) {
            continue;
        }
        const Elf64_Shdr& text = sections[section.sh_link];
        for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            if (!read_row(file, section.sh_offset + at, &symbol)) {
                break;  // the table says that it goes on behind the file
            }
            if (!is_exported(symbol)) {
                continue;
            }
            const uint64_t name_at = text.sh_offset + symbol.st_name;
            if (name_at < file.size()) {
                names.emplace_back(file.c_str() + name_at);
            }
        }
    }
    return names;
}

}  // namespace flashrt::conformance

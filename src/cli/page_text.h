#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

/// Pages that the build embeds, packed by zlib (cmake/embed.py).
namespace smelt::cli {

std::string inspect_page_text();  ///< the files of page/; the data belong in the place of /*DATA*/
std::string diff_page_text();     ///< diff_page.html; the data belong in the place of /*DIFF*/null

/// A text of `size` bytes that zlib packed; the bytes are this program's own and taken as valid.
std::string unpacked_text(std::span<const uint8_t> packed, size_t size);

}  // namespace smelt::cli

#pragma once

#include <string>

/// Pages that the build embeds, packed by zlib (cmake/embed.py).
namespace smelt::cli {

std::string inspect_page_text();  ///< the files of page/; the data belong in the place of /*DATA*/
std::string diff_page_text();     ///< diff_page.html; the data belong in the place of /*DIFF*/null

}  // namespace smelt::cli

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace smelt {

/// The code points of UTF-8 text. A byte that starts no valid sequence becomes U+FFFD.
std::vector<char32_t> decode_utf8(std::string_view text);
void append_utf8(std::string& out, char32_t c);
std::string encode_utf8(const char32_t* begin, const char32_t* end);

/// Simple case mapping of the Latin, Greek and Cyrillic alphabets; other characters stay.
char32_t to_lower(char32_t c);
char32_t to_upper(char32_t c);
std::string change_case(std::string_view text, bool upper);

/// White space as Unicode counts it.
bool is_space(char32_t c);

}  // namespace smelt

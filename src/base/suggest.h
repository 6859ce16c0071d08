#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smelt {

/// The candidate that a misspelt word most likely means; "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "a, b, c"; "none" for an empty list; long lists are cut.
std::string listed(const std::vector<std::string>& names);

/// Message for a name that is none of `names`: "no input is 'image'; did you mean 'images'? There are: images, sizes".
std::string not_among(std::string_view what, std::string_view name, const std::vector<std::string>& names);

}  // namespace smelt

#pragma once

#include <cstdint>
#include <vector>

namespace smelt {

/// The permutation that brings an image of `rank` dimensions from [N, C, spatial...] to [N, spatial..., C].
inline std::vector<int64_t> channels_last_perm(int rank) {
  std::vector<int64_t> perm{0};
  for (int d = 2; d < rank; ++d) perm.push_back(d);
  perm.push_back(1);
  return perm;
}

/// The permutation that undoes channels_last_perm().
inline std::vector<int64_t> channels_first_perm(int rank) {
  std::vector<int64_t> perm{0, rank - 1};
  for (int d = 1; d < rank - 1; ++d) perm.push_back(d);
  return perm;
}

}  // namespace smelt

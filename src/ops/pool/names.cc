#include "ops/pool/pool.h"

namespace smelt {

const char* to_string(PoolKind k) {
  static const char* const names[] = {"max", "average", "lp"};
  return names[static_cast<int>(k)];
}

}  // namespace smelt

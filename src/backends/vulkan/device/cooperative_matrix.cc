#include "backends/vulkan/device/cooperative_matrix.h"

#include <cstring>
#include <map>
#include <string>
#include <string_view>

namespace smelt::vulkan {
namespace {

/// VkCooperativeMatrixPropertiesKHR.
struct MatrixProperties {
  VkStructureType type = static_cast<VkStructureType>(1000506001);
  void* pNext = nullptr;
  uint32_t m = 0, n = 0, k = 0;
  int32_t a = 0, b = 0, c = 0, result = 0;  ///< VkComponentTypeKHR
  VkBool32 saturates = VK_FALSE;
  int32_t scope = 0;  ///< VkScopeKHR
};
constexpr int32_t kFloat16 = 0, kFloat32 = 1, kSint8 = 3, kSint32 = 5, kSubgroup = 3;
using GetMatrixProperties = VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*, MatrixProperties*);

/// Sizes of cooperative_matrix.comp: the part of a block that a subgroup computes, and elements of a row at a time.
constexpr uint32_t kSubgroupBlock = 32, kFloat16AtOnce = 32, kBytesAtOnce = 64;

enum : uint32_t {
  kOpExtension = 10,
  kOpTypeInt = 21,
  kOpConstantTrue = 41,
  kOpConstant = 43,
  kOpCapability = 17,
  kOpFunction = 54,
  kOpTypeMatrixKhr = 4456,
  kOpLoadKhr = 4457,
  kOpStoreKhr = 4458,
  kOpMultiplyAddKhr = 4459,
  kOpTypeMatrixNv = 5358,
  kOpLoadNv = 5359,
  kOpStoreNv = 5360,
  kOpMultiplyAddNv = 5361,
  kMatricesNv = 5357,
  kMatricesKhr = 6022,
};
constexpr size_t kHeaderWords = 5, kBoundWord = 3;

using Words = std::span<const uint32_t>;
uint32_t opcode(Words instruction) { return instruction[0] & 0xffff; }

/// What has to be known of a module before it is written anew.
struct Module {
  std::map<uint32_t, uint32_t> uses;        ///< of matrix types: 0 and 1, factors, 2, sums
  std::map<uint32_t, uint32_t> components;  ///< of matrix types
  std::map<uint32_t, uint32_t> types;       ///< of values that are matrices
  std::map<uint32_t, bool> is_signed;       ///< integer types
  std::map<uint32_t, bool> bools;           ///< constants that are true
  uint32_t uint_type = 0;

  void read(Words i) {
    switch (opcode(i)) {
      case kOpTypeInt:
        is_signed[i[1]] = i[3] != 0;
        if (i[2] == 32 && i[3] == 0) uint_type = i[1];
        break;
      case kOpConstantTrue:
        bools[i[2]] = true;
        break;
      case kOpTypeMatrixNv:
        components[i[1]] = i[2];
        break;
      default:
        // No other declaration has a matrix type as its first operand, so that this is one of a value.
        if (i.size() > 2 && components.count(i[1])) types[i[2]] = i[1];
    }
    if (opcode(i) == kOpMultiplyAddNv)
      for (uint32_t use = 0; use < 3; ++use) uses[types[i[3 + use]]] = use;
  }
};

/// Calls `f` with every instruction.
template <class F>
void for_each_instruction(Words module, const F& f) {
  for (size_t at = kHeaderWords; at < module.size();) {
    const size_t n = module[at] >> 16;
    if (n == 0 || n > module.size() - at) return;
    f(module.subspan(at, n));
    at += n;
  }
}

void add(std::vector<uint32_t>& out, uint32_t code, std::initializer_list<uint32_t> operands, Words more = {}) {
  out.push_back(static_cast<uint32_t>(1 + operands.size() + more.size()) << 16 | code);
  out.insert(out.end(), operands);
  out.insert(out.end(), more.begin(), more.end());
}

bool is_text(Words operands, std::string_view text) {
  const std::string_view s(reinterpret_cast<const char*>(operands.data()), operands.size_bytes());
  return s.substr(0, s.find('\0')) == text;
}

void add_extension(std::vector<uint32_t>& out, const std::string& name) {
  std::vector<uint32_t> words(name.size() / 4 + 1, 0);
  std::memcpy(words.data(), name.data(), name.size());
  add(out, kOpExtension, {}, words);
}

}  // namespace

CooperativeMatrixSizes cooperative_matrix_sizes(VkInstance instance, VkPhysicalDevice device) {
  CooperativeMatrixSizes sizes;
  const auto get = reinterpret_cast<GetMatrixProperties>(
      vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  uint32_t count = 0;
  if (!get || get(device, &count, nullptr) != VK_SUCCESS) return sizes;
  std::vector<MatrixProperties> all(count);
  if (get(device, &count, all.data()) < VK_SUCCESS) return sizes;
  all.resize(count);
  const auto choose = [&](int32_t factor, int32_t sum, uint32_t at_once) {
    std::optional<MatrixSize> best;
    for (const MatrixProperties& p : all) {
      if (p.a != factor || p.b != factor || p.c != sum || p.result != sum || p.saturates || p.scope != kSubgroup)
        continue;
      if (!p.m || !p.n || !p.k || kSubgroupBlock % p.m || kSubgroupBlock % p.n || at_once % p.k) continue;
      if (!best || p.m * p.n * p.k > best->m * best->n * best->k) best = MatrixSize{p.m, p.n, p.k};
    }
    return best;
  };
  return {choose(kFloat16, kFloat32, kFloat16AtOnce), choose(kSint8, kSint32, kBytesAtOnce)};
}

bool uses_cooperative_matrix(std::span<const uint32_t> module) {
  // Capabilities come first.
  for (size_t at = kHeaderWords; at + 1 < module.size() && opcode(module.subspan(at)) == kOpCapability; at += 2)
    if (module[at + 1] == kMatricesNv) return true;
  return false;
}

std::vector<uint32_t> to_khr_cooperative_matrix(std::span<const uint32_t> module) {
  if (!uses_cooperative_matrix(module)) return {};
  Module m;
  for_each_instruction(module, [&](Words i) { m.read(i); });
  std::vector<uint32_t> out(module.begin(), module.begin() + kHeaderWords);
  // Constants 0, 1 and 2: uses of matrices, and the first two by rows and by columns.
  const uint32_t numbers = out[kBoundWord];
  out[kBoundWord] += 3;
  bool declared = false;
  const auto by_columns = [&](uint32_t id) { return numbers + (m.bools.count(id) ? 1 : 0); };
  for_each_instruction(module, [&](Words i) {
    switch (opcode(i)) {
      case kOpCapability:
        return add(out, kOpCapability, {i[1] == kMatricesNv ? uint32_t{kMatricesKhr} : i[1]});
      case kOpExtension:
        if (is_text(i.subspan(1), "SPV_NV_cooperative_matrix")) return add_extension(out, "SPV_KHR_cooperative_matrix");
        break;
      case kOpTypeMatrixNv:
        for (uint32_t n = 0; n < 3 && !declared; ++n) add(out, kOpConstant, {m.uint_type, numbers + n, n});
        declared = true;
        return add(out, kOpTypeMatrixKhr, {i[1], i[2], i[3], i[4], i[5], numbers + m.uses[i[1]]});
      case kOpLoadNv:
        return add(out, kOpLoadKhr, {i[1], i[2], i[3], by_columns(i[5]), i[4]}, i.subspan(6));
      case kOpStoreNv:
        return add(out, kOpStoreKhr, {i[1], i[2], by_columns(i[4]), i[3]}, i.subspan(5));
      case kOpMultiplyAddNv: {
        constexpr uint32_t kAllSigned = 0xf;
        if (m.is_signed[m.components[i[1]]])
          return add(out, kOpMultiplyAddKhr, {i[1], i[2], i[3], i[4], i[5], kAllSigned});
        return add(out, kOpMultiplyAddKhr, {i[1], i[2], i[3], i[4], i[5]});
      }
    }
    out.insert(out.end(), i.begin(), i.end());
  });
  return out;
}

}  // namespace smelt::vulkan

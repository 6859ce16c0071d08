#include <memory>
#include <thread>

#include "backends/cpu/core/isa.h"
#include "backends/vulkan/device/backend.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/json.h"
#include "cli/output.h"

namespace smelt::cli {
namespace {

std::string features(const vulkan::DeviceInfo& d) {
  std::string out;
  const auto add = [&](bool has, const char* name) {
    if (has) out += (out.empty() ? "" : ", ") + std::string(name);
  };
  add(d.fp16, "fp16");
  add(d.storage16 && !d.fp16, "fp16 storage");
  add(d.int8, "int8");
  add(d.int8_dot_product, "int8 dot product");
  add(d.half_matrices.has_value(), "fp16 matrices");
  add(d.int8_matrices.has_value(), "int8 matrices");
  add(d.int64, "int64");
  add(d.float64, "float64");
  add(d.unified_memory, "unified memory");
  return out;
}

/// [m, n, k], or null.
Json matrix(const std::optional<vulkan::MatrixSize>& size) { return size ? Json{size->m, size->n, size->k} : Json(); }

void print_json(const Result<std::vector<vulkan::DeviceInfo>>& found) {
  Json list = Json::array();
  if (found.ok())
    for (const vulkan::DeviceInfo& d : *found)
      list.push_back({{"index", d.index},
                      {"name", d.name},
                      {"type", d.type},
                      {"api_version", d.api_version},
                      {"driver", d.driver},
                      {"memory_bytes", d.memory_bytes},
                      {"vendor_id", d.vendor_id},
                      {"device_id", d.device_id},
                      {"subgroup_size", d.subgroup_size},
                      {"fp16", d.fp16},
                      {"int8", d.int8},
                      {"int8_dot_product", d.int8_dot_product},
                      {"half_matrices", matrix(d.half_matrices)},
                      {"int8_matrices", matrix(d.int8_matrices)},
                      {"push_descriptors", d.push_descriptors},
                      {"timeline_semaphores", d.timeline_semaphores},
                      {"int64", d.int64},
                      {"float64", d.float64},
                      {"unified_memory", d.unified_memory}});
  Json levels = Json::array();
  for (const Isa isa : named_isas()) levels.push_back(to_string(isa));
  Json out = {{"cpu",
               {{"isa", to_string(active_isa())},
                {"levels", std::move(levels)},
                {"threads", std::thread::hardware_concurrency()}}},
              {"vulkan", list}};
  if (!found.ok()) out["vulkan_problem"] = found.error().message();
  put_json(out);
}

void print_text(const Result<std::vector<vulkan::DeviceInfo>>& found) {
  say("cpu     {} instructions of {}; {} hardware threads\n", to_string(active_isa()), list_of_isas(),
      std::thread::hardware_concurrency());
  if (!found.ok()) {
    say("vulkan  {}; the cpu back-end runs every format\n", found.error().message());
    return;
  }
  Table table({"vulkan", "name", "type", "version", "memory", "features"});
  for (const vulkan::DeviceInfo& d : *found)
    table.row(
        {Cat(d.index), d.name, d.type, d.api_version, human_bytes(static_cast<double>(d.memory_bytes)), features(d)});
  put(table.str({4}, 60));
}

}  // namespace

void add_devices(Command app, int& status) {
  auto as_json = std::make_shared<bool>(false);
  Command c = app.add_subcommand("devices", "List devices");
  c.add_flag("-j,--json", *as_json, "One JSON object");
  c.footer("Examples:\n  smelt devices\n  smelt run model.onnx --backend vulkan --device 1");
  c.callback([as_json, &status] {
    if (!selected_isa().ok()) {
      status = report(selected_isa().error());
      return;
    }
    const auto found = vulkan::devices();
    if (*as_json)
      print_json(found);
    else
      print_text(found);
    status = kDone;
  });
}

}  // namespace smelt::cli

#include "cli/options.h"

#include "backends/backend.h"
#include "cli/command.h"
#include "cli/output.h"
#include "smelt/model.h"

namespace smelt::cli {

Option add_model(Command command, std::string& model) {
  return command
      .add_option("model", model,
                  "TFLite, ONNX, ExecuTorch program, bundled program, XNNPACK or Vulkan graph, recognised by content; "
                  "- for standard input")
      .type_name("FILE");
}

void add_threads(Command command, int& threads) {
  command.add_option("-t,--threads", threads, "Number of threads, 1 to 256; 0: all cores")
      .check(between(0, 256))
      .type_name("N")
      .default_shown();
}

void add_data(Command command, std::vector<std::string>& files) {
  command.add_option("--data", files, "External weights of a program (.ptd); may be repeated")
      .one_value()
      .type_name("FILE");
}

void add_tolerate(Command command, std::vector<std::string>& rules) {
  std::vector<std::string> names{"all"};
  for (const TolerableRule& rule : tolerable_rules()) names.emplace_back(rule.name);
  command
      .add_option("--tolerate", rules,
                  "Accept a file that breaks these rules of its format: names as errors give them, commas between, or "
                  "'all'")
      .delimiter(',')
      .one_value()
      .check(one_of(names))
      .type_name("RULES");
}

void add_custom_operators(Command command, std::vector<std::string>& libraries) {
  command
      .add_option("--custom-ops", libraries,
                  "Shared library with custom operators (smelt/operators.h); may be repeated. It is run as code")
      .one_value()
      .type_name("LIB.so");
}

void add_seed(Command command, uint64_t& seed) {
  command.add_option("--seed", seed, "Seed of random inputs and operators")
      .check(at_least_zero())
      .type_name("N")
      .default_shown();
}

void add_target(Command command, Target& target) {
  std::vector<std::string> names{BackendKind::kReference.name()};
  for (const Backend* b : all_backends()) names.emplace_back(b->name());
  command.add_option("--backend", target.backend, joined(names, ", "))
      .check(one_of(names))
      .type_name("NAME")
      .default_shown();
  Option device = command
                      .add_option("--device", target.device,
                                  "Number of the Vulkan device in `smelt devices` (default: the best one)")
                      .check(at_least_zero())
                      .type_name("N");
  Option storage =
      command
          .add_option("--device-storage", target.storage,
                      "Storage of tensors on a Vulkan device: buffer, texture, or auto (what the model asks for on a "
                      "GPU, else what suits the device)")
          .check(one_of({"auto", "buffer", "texture"}))
          .type_name("KIND")
          .default_shown();
  Option fp16 =
      command.add_flag("--fp16", target.fp16,
                       "Compute convolutions and matrix products in float16 on Vulkan devices with 16-bit arithmetic, "
                       "weights and textures too: faster, results within about 1 %");
  Option bf16 = command.add_flag(
      "--bf16", target.bf16,
      "Compute convolutions, attention and products with constant matrices in bfloat16, not float32, on "
      "processors with AVX-512 BF16 or AMX: at least twice as fast, weights of half the size, results within 1 to "
      "3 %");
  command
      .add_option("--match", target.match,
                  "Whose integers a quantized TFLite model gives: reference (LiteRT's reference kernels) or "
                  "litert-xnnpack (LiteRT as it runs by default)")
      .check(one_of({"reference", "litert-xnnpack"}))
      .type_name("NAME")
      .default_shown();
  command.add_flag("--deterministic", target.deterministic,
                   "Give the same bits for every number of threads and every position in a batch");
  command.add_flag("--strict-types", target.strict_types,
                   "Keep values between nodes in the file's element types: the CPU computes on with float16 values in "
                   "float32 otherwise");
  command.when_parsed([device, storage, fp16, bf16, &target] {
    for (const Option option : {device, storage, fp16})
      if (option.given() && target.backend != "vulkan") option_requires(option.name(), "--backend vulkan");
    if (bf16.given() && target.backend != "cpu") option_requires(bf16.name(), "--backend cpu");
  });
}

void add_limits(Command command, Limits& limits) {
  command
      .add_option("--limit-memory", limits.memory,
                  "Memory limit beyond the weights, as 1000000 or 10MB (0: scales with the model)")
      .check(byte_size())
      .type_name("SIZE")
      .default_shown();
  command.add_option("--limit-seconds", limits.seconds, "Time limit of a run, as 2 or 500ms (0: none)")
      .check(duration())
      .type_name("TIME")
      .default_shown();
}

void take_model(std::string& model, std::vector<std::string>& inputs) {
  if (model.empty() && inputs.size() > 1) {
    model = std::move(inputs.back());
    inputs.pop_back();
  }
  if (model.empty()) argument_is_required("MODEL");
}

}  // namespace smelt::cli

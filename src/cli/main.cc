#include <fmt/format.h>

#include "cli/command.h"
#include "cli/common.h"

namespace smelt::cli {

int report(const Status& status) {
  if (status.ok()) return kDone;
  fmt::print(stderr, "smelt: {}\n", status.error().message());
  return kFault;
}

void Target::apply(SessionOptions& options) const {
  options.backend = backend_of(backend);
  options.device = device;
  options.device_storage = storage == "buffer"    ? DeviceStorage::kBuffer
                           : storage == "texture" ? DeviceStorage::kTexture
                                                  : DeviceStorage::kAuto;
  options.fp16 = fp16;
}

void add_target(CLI::App& command, Target& target) {
  command.add_option("--backend", target.backend, "reference, cpu or vulkan")
      ->check(CLI::IsMember({"reference", "cpu", "vulkan"}));
  command.add_option("--device", target.device, "Vulkan device by its number in `smelt devices`; the best without")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option(
          "--device-storage", target.storage,
          "What tensors are on a Vulkan device: buffer, texture, or auto (on a GPU as the model asks, else what suits "
          "the device)")
      ->check(CLI::IsMember({"auto", "buffer", "texture"}));
  command.add_flag("--fp16", target.fp16,
                   "On a Vulkan device with 16-bit arithmetic: products of convolutions and matrices in float16, their "
                   "weights and textures stored so; faster, results within about 1 %");
}

}  // namespace smelt::cli

int main(int argc, char** argv) {
  using namespace smelt::cli;
  CLI::App app{"smelt loads, checks and runs on-device neural-network models of every common format.", "smelt"};
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all commands");
  app.footer(
      "Examples:\n"
      "  smelt run model.tflite --image cat.jpg --labels labels.txt\n"
      "  smelt inspect model.onnx\n"
      "  smelt bench model.pte --threads 2\n"
      "  smelt verify model.bpte\n"
      "Exit status: 0 done, 1 the model or input is at fault, 2 wrong usage, 3 a verification did not match.");
  int status = kDone;
  add_run(app, status);
  add_inspect(app, status);
  add_bench(app, status);
  add_verify(app, status);
  add_bundle(app, status);
  add_devices(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kDone : kUsage;
  }
  return status;
}

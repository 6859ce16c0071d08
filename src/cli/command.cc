#include "cli/command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <sstream>

#include "backends/backend.h"
#include "backends/cpu/core/isa.h"
#include "base/suggest.h"
#include "cli/common.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/output.h"

namespace smelt::cli {

int report(const Status& status) {
  if (status.ok()) return kDone;
  complain(status.error().message());
  return kFault;
}

void Target::apply(SessionOptions& options) const {
  options.backend = backend;
  options.device = device;
  options.fp16 = fp16;
  options.arithmetic = match == "litert-xnnpack" ? Arithmetic::kLiteRtXnnpack : Arithmetic::kReference;
  if (bf16) options.isa = to_string(best_bf16_isa());
  options.deterministic = deterministic;
  options.strict_types = strict_types;
  options.device_storage = storage == "buffer"    ? DeviceStorage::kBuffer
                           : storage == "texture" ? DeviceStorage::kTexture
                                                  : DeviceStorage::kAuto;
}

namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    out.push_back(command->get_name());
  return out;
}

/// "did you mean '--threads'? " where an argument that a command does not take is nearly one of its options.
std::string suggestion(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* o : command.get_options({}))
    for (const std::string& name : o->get_lnames()) flags.push_back("--" + name);
  for (const std::string& argument : command.remaining(true)) {
    if (!argument.starts_with("-")) continue;
    const std::string near = nearest(argument.substr(0, argument.find('=')), flags);
    if (!near.empty()) return formatted("did you mean '{}'? ", near);
  }
  return "";
}

std::string usage_message(const CLI::App* app, const CLI::Error& e) {
  std::string command = "smelt", hint;
  for (const CLI::App* sub : app->get_subcommands()) {
    command += " " + sub->get_name();
    if (dynamic_cast<const CLI::ExtrasError*>(&e)) hint = suggestion(*sub);
  }
  return formatted("{}{}\n{}`{} --help` says more.\n", fault_prefix(), printable(e.what()), hint, command);
}

/// Says which commands there are when the first argument is neither one of them nor an option.
bool names_a_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto names = command_names(app);
  std::string message = "no command; there are: " + listed(names);
  if (!arguments.empty()) {
    const std::string& first = arguments[0];
    if (first.starts_with("-") || std::ranges::find(names, first) != names.end()) return true;
    std::error_code ec;
    message = std::filesystem::exists(first, ec) ? formatted("no command is '{0}'; `smelt run {0}` runs a model", first)
                                                 : not_among("command", first, names);
  }
  complain(message);
  put_error("`smelt --help` says more.\n");
  return false;
}

/// The arguments without the program's name; "help" and "help COMMAND" become --help.
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> out(argv + std::min(argc, 1), argv + argc);
  if (out.empty() || out[0] != "help") return out;
  out.erase(out.begin());
  out.emplace_back("--help");
  return out;
}

int parse_and_run(CLI::App& app, const int& status, std::vector<std::string> arguments) {
  if (!names_a_command(app, arguments)) return kUsage;
  try {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    std::ostringstream out, error;
    const int code = app.exit(e, out, error);
    put(out.str());
    put_error(error.str());
    return code == 0 ? kDone : kUsage;
  }
  return status;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  int status = kDone;
  try {
    CLI::App app{"smelt loads, checks and runs on-device neural-network models of every common format.", "smelt"};
    app.require_subcommand(1);
    app.set_help_all_flag("--help-all", "Help of all commands");
    app.set_version_flag("-v,--version", "smelt " SMELT_VERSION_STRING);
    app.formatter(std::make_shared<Help>());
    app.failure_message(usage_message);
    app.footer(
        "Examples:\n"
        "  smelt run model.tflite --image cat.jpg --labels labels.txt\n"
        "  smelt inspect model.onnx\n"
        "  smelt bench model.pte --threads 2\n"
        "  smelt verify model.bpte\n"
        "Exit status: 0 done, 1 the model or input is at fault, 2 wrong usage,\n"
        "3 a verification did not match.");
    const Command root(&app);
    add_run(root, status);
    add_inspect(root, status);
    add_bench(root, status);
    add_explain(root, status);
    add_diff(root, status);
    add_verify(root, status);
    add_bundle(root, status);
    add_convert(root, status);
    add_devices(root, status);
    add_completion(root, status);
    status = parse_and_run(app, status, arguments_of(argc, argv));
  } catch (const std::bad_alloc&) {
    complain("out of memory");
    status = kFault;
  } catch (const std::exception& e) {
    complain(e.what());
    status = kFault;
  }
  return finish_output(status);
}

}  // namespace smelt::cli

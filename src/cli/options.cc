#include "cli/options.h"

#include <algorithm>

#include "cli/command.h"
#include "cli/output.h"
#include "smelt/model.h"

namespace smelt::cli {
namespace {

/// Breaks at spaces so that no line is longer than `width`, except for a long word.
std::string wrap(const std::string& text, size_t width) {
  std::string out;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const size_t word = end - at;
    if (line > 0 && line + 1 + word > width) {
      out += '\n';
      line = 0;
    } else if (line > 0) {
      out += ' ';
      ++line;
    }
    out += text.substr(at, word);
    line += word;
    at = end + 1;
  }
  return out;
}

}  // namespace

std::string Help::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) return "";
  const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  return " " + option->get_type_name() + (many ? "..." : "");
}

std::string Help::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (!option->get_default_str().empty()) text += " (default " + option->get_default_str() + ")";
  const size_t terminal = terminal_width();
  const size_t line = std::clamp<size_t>(terminal == 0 ? 120 : terminal, 60, 120);
  return wrap(text, line - get_column_width());
}

std::string Help::make_option_usage(const CLI::Option* option) const {
  const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  return option->get_name(true) + (many ? "..." : "");
}

CLI::Validator between(int64_t low, int64_t high) { return CLI::Range(low, high).description(""); }

CLI::Validator one_of(const std::vector<std::string>& names) { return CLI::IsMember(names).description(""); }

namespace {
CLI::Validator number(bool (*good)(double), const char* wanted) {
  return CLI::Validator(
      [good, wanted](std::string& text) {
        double value = 0;
        const bool fine = CLI::detail::lexical_cast(text, value) && good(value);
        return fine ? std::string() : text + " is not a number " + wanted;
      },
      "");
}
}  // namespace

CLI::Validator at_least_zero() {
  return number([](double v) { return v >= 0; }, "of at least 0");
}

CLI::Validator above_zero() {
  return number([](double v) { return v > 0; }, "above 0");
}

CLI::Option* add_model(CLI::App& command, std::string& model) {
  return command
      .add_option("model", model,
                  "TFLite, ONNX, ExecuTorch program, bundled program, XNNPACK or Vulkan graph, recognised by content")
      ->type_name("FILE");
}

CLI::Option* add_inputs(CLI::App& command, std::vector<std::string>& inputs) {
  return command
      .add_option("--input", inputs,
                  "FILE.npy in the model's order, or NAME=FILE.npy; a folder N.seq or N.map; 'none' for an absent "
                  "optional; default: seeded random values")
      ->take_all()
      ->type_name("FILE");
}

void add_threads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "Number of threads, 1 to 256")
      ->check(between(1, 256))
      ->type_name("N")
      ->capture_default_str();
}

void add_data(CLI::App& command, std::vector<std::string>& files) {
  command.add_option("--data", files, "External weights of a program (.ptd); may be repeated")
      ->allow_extra_args(false)
      ->type_name("FILE");
}

void add_tolerate(CLI::App& command, std::vector<std::string>& rules) {
  std::vector<std::string> names{"all"};
  for (const TolerableRule& rule : tolerable_rules()) names.emplace_back(rule.name);
  command
      .add_option("--tolerate", rules,
                  "Accept a file that breaks these rules of its format: names as errors give them, commas between, or "
                  "'all'")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(names))
      ->type_name("RULES");
}

void add_seed(CLI::App& command, uint64_t& seed) {
  command.add_option("--seed", seed, "Seed of random inputs and operators")
      ->check(at_least_zero())
      ->type_name("N")
      ->capture_default_str();
}

void add_limits(CLI::App& command, Limits& limits) {
  command
      .add_option("--limit-memory", limits.memory,
                  "Memory limit beyond the weights, in bytes (0: scales with the model)")
      ->check(at_least_zero())
      ->type_name("BYTES")
      ->capture_default_str();
  command.add_option("--limit-seconds", limits.seconds, "Time limit of a run in seconds (0: none)")
      ->check(at_least_zero())
      ->type_name("S")
      ->capture_default_str();
}

void take_model(std::string& model, std::vector<std::string>& inputs) {
  if (model.empty() && inputs.size() > 1) {
    model = std::move(inputs.back());
    inputs.pop_back();
  }
  if (model.empty()) throw CLI::RequiredError("MODEL");
}

}  // namespace smelt::cli

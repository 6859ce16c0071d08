#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

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

namespace {
constexpr std::string_view kChoices = "one of ";  // the validator's name lists them
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  return CLI::IsMember(names).description("").name(fmt::format("{}{}", kChoices, fmt::join(names, " ")));
}

std::vector<std::string> choices(const CLI::Option& option) {
  // An option has its validators by index, and no count of them.
  auto& o = const_cast<CLI::Option&>(option);
  for (int i = 0;; ++i) try {
      const std::string& name = o.get_validator(i)->get_name();
      if (name.starts_with(kChoices)) return CLI::detail::split(name.substr(kChoices.size()), ' ');
    } catch (const CLI::OptionNotFound&) {
      return {};
    }
}

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

namespace {

/// A number with a unit becomes the number of base units; "" is a unit, too.
CLI::Validator quantity(std::map<std::string, double> units, const char* wanted, bool whole) {
  return CLI::Validator(
      [units = std::move(units), wanted, whole](std::string& text) {
        const size_t digits = text.find_last_of("0123456789.") + 1;
        size_t start = digits;
        while (start < text.size() && text[start] == ' ') ++start;
        const auto unit = units.find(CLI::detail::to_lower(text.substr(start)));
        double value = 0;
        if (unit == units.end() || !CLI::detail::lexical_cast(text.substr(0, digits), value) || !(value >= 0) ||
            value * unit->second > 9e15)
          return text + " is not " + wanted;
        text = whole ? fmt::format("{:.0f}", value * unit->second) : fmt::format("{}", value * unit->second);
        return std::string();
      },
      "");
}

}  // namespace

CLI::Validator duration() {
  return quantity({{"", 1}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}},
                  "a time of at least 0, as 2, 500ms or 1m", false);
}

CLI::Validator byte_size() {
  constexpr double k = 1000, ki = 1024;
  return quantity({{"", 1},
                   {"b", 1},
                   {"k", k},
                   {"kb", k},
                   {"kib", ki},
                   {"m", k * k},
                   {"mb", k * k},
                   {"mib", ki * ki},
                   {"g", k * k * k},
                   {"gb", k * k * k},
                   {"gib", ki * ki * ki},
                   {"t", k * k * k * k},
                   {"tb", k * k * k * k},
                   {"tib", ki * ki * ki * ki}},
                  "a size of at least 0, as 1000000, 10MB or 1GiB", true);
}

CLI::Option* add_model(CLI::App& command, std::string& model) {
  return command
      .add_option("model", model,
                  "TFLite, ONNX, ExecuTorch program, bundled program, XNNPACK or Vulkan graph, recognised by content; "
                  "- for standard input")
      ->type_name("FILE");
}

void add_threads(CLI::App& command, int& threads) {
  command.add_option("-t,--threads", threads, "Number of threads, 1 to 256; 0: all cores")
      ->check(between(0, 256))
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

void add_custom_operators(CLI::App& command, std::vector<std::string>& libraries) {
  command
      .add_option("--custom-ops", libraries,
                  "Shared library with custom operators (smelt/operators.h); may be repeated. It is run as code")
      ->allow_extra_args(false)
      ->type_name("LIB.so");
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
                  "Memory limit beyond the weights, as 1000000 or 10MB (0: scales with the model)")
      ->transform(byte_size())
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("--limit-seconds", limits.seconds, "Time limit of a run, as 2 or 500ms (0: none)")
      ->transform(duration())
      ->type_name("TIME")
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

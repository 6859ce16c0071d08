#include "formats/rules.h"

#include <algorithm>

#include "base/error.h"

namespace smelt {

std::span<const TolerableRule> tolerable_rules() {
  static constexpr TolerableRule kRules[] = {
#define SMELT_RULE(id, name, breach) {name, breach},
#include "formats/rules.inc"
#undef SMELT_RULE
  };
  return kRules;
}

bool tolerates(const Source& source, Rule rule) {
  const char* name = tolerable_rules()[static_cast<size_t>(rule)].name;
  if (source.options)
    for (const std::string& tolerated : source.options->tolerate)
      if (tolerated == name || tolerated == "all") return true;
  return false;
}

Status breach(const Source& source, Rule rule, const Error& error) {
  if (tolerates(source, rule)) return Ok();
  const char* name = tolerable_rules()[static_cast<size_t>(rule)].name;
  return Error(error.code(), Cat(error.message(), " (rule ", name, "; --tolerate ", name, " accepts it)"));
}

Status check_rule_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto rules = tolerable_rules();
    if (name == "all" || std::ranges::any_of(rules, [&](const auto& r) { return name == r.name; })) continue;
    std::string list = "all";
    for (const TolerableRule& r : rules) list += Cat(", ", r.name);
    return InvalidInput("no rule '", name, "' can be tolerated (known: ", list, ")");
  }
  return Ok();
}

}  // namespace smelt

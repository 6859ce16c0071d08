#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/format.h"

namespace smelt {

/// A rule of a format that LoadOptions::tolerate can waive.
enum class Rule : uint8_t {
#define SMELT_RULE(id, name, breach) k##id,
#include "formats/rules.inc"
#undef SMELT_RULE
};

/// True if the source's options waive `rule`.
bool tolerates(const Source& source, Rule rule);

/// Reports that a file breaks `rule`. Ok where the source's options tolerate it; else `error`, whose message then names
/// the rule and the option that tolerates it.
Status breach(const Source& source, Rule rule, const Error& error);

/// kInvalidInput unless each of `names` is a rule's name or "all".
Status check_rule_names(const std::vector<std::string>& names);

}  // namespace smelt

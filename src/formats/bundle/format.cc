// A bundled program as a model: the program inside.
#include "formats/format.h"

#include "base/error.h"
#include "formats/bundle/bundle.h"

namespace smelt {

extern const Format executorch_format;
extern const Format bundle_format;

namespace {

size_t tests_in(const bundle::Bundle& bundle) {
  size_t sets = 0;
  for (const auto& tests : bundle.tests) sets += tests.sets.size();
  return sets;
}

Result<Module> load_bundle(const Source& source) {
  const Source outer = aligned(source);
  SMELT_ASSIGN(const auto parsed, bundle::read(outer.bytes, outer.owner));
  if (!executorch_format.recognise(parsed.program))
    return InvalidModel("the program inside is no ExecuTorch program (identifier ET12 expected)");
  Source inner = outer;
  inner.bytes = parsed.program;
  auto module = executorch_format.load(inner);
  if (!module.ok()) return module.error().within("the program inside");
  module->format = executorch_format.name;
  const uint64_t around = source.bytes.size() - parsed.program.size();
  module->parts.insert(module->parts.begin(), {"test sets and attachments", tests_in(parsed), around});
  module->metadata.emplace_back("bundle", bundle::to_string(parsed.version));
  for (const auto& tests : parsed.tests) {
    const std::string name = parsed.version == bundle::Version::kBp08 ? tests.method
                             : tests.plan < module->methods.size()    ? module->methods[tests.plan].name
                                                                      : Cat("plan ", tests.plan);
    module->metadata.emplace_back(Cat("test sets of ", name), Cat(tests.sets.size()));
    for (const auto& [key, text] : tests.metadata) module->metadata.emplace_back(Cat(name, ": ", key), text);
  }
  for (const auto& [key, text] : parsed.attachments) module->metadata.emplace_back(Cat("attachment ", key), text);
  return module;
}

}  // namespace

const Format bundle_format{"bundle", bundle::recognise, load_bundle, true};

}  // namespace smelt

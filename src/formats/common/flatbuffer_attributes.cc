#include "formats/common/flatbuffer_attributes.h"

#include <flatbuffers/reflection_generated.h>

#include <algorithm>

namespace smelt {
namespace {

using flatbuffers::Table;
using reflection::BaseType;

constexpr int kMaxDepth = 8;  // of tables within tables

bool is_vector_of_scalars(const reflection::Type& type) {
  return type.base_type() == BaseType::Vector && type.element() < BaseType::String;
}

/// Values of one schema as JSON texts.
class Printer {
 public:
  explicit Printer(const reflection::Schema& schema) : schema_(schema) {}

  StatedAttributes fields(const Table& table, const reflection::Object& object, int depth) const {
    std::vector<const reflection::Field*> order(object.fields()->begin(), object.fields()->end());  // by name
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->id() < b->id(); });
    StatedAttributes out;
    for (const reflection::Field* f : order)
      if (std::string text = field(table, *f, depth); !text.empty() && !f->deprecated())
        out.emplace_back(f->name()->str(), std::move(text));
    return out;
  }

  /// The table that a union field holds, and its type; null: none that the schema knows.
  std::pair<const Table*, const reflection::Object*> member(const Table& table, const reflection::Field& f) const {
    const auto* choices = schema_.enums()->Get(static_cast<uint32_t>(f.type()->index()))->values();
    // The field before a union's says which member it is.
    const auto number = table.GetField<uint8_t>(static_cast<uint16_t>(f.offset() - sizeof(uint16_t)), 0);
    const auto* choice = choices->LookupByKey(number);
    const auto* held = table.GetPointer<const Table*>(f.offset());
    if (!held || !choice || !choice->union_type() || choice->union_type()->index() < 0) return {};
    return {held, schema_.objects()->Get(static_cast<uint32_t>(choice->union_type()->index()))};
  }

 private:
  std::string object(const Table& table, const reflection::Object& type, int depth) const {
    if (depth >= kMaxDepth) return json_text(std::string_view("..."));
    std::string out = "{";
    for (const auto& [name, text] : fields(table, type, depth + 1))
      out += Cat(out.size() > 1 ? "," : "", json_text(std::string_view(name)), ":", text);
    return out + "}";
  }

  std::string named(const reflection::Type& type, int64_t value) const {
    if (type.base_type() == BaseType::Bool) return json_text(value != 0);
    if (type.index() < 0) return json_text(value);
    const auto* choice = schema_.enums()->Get(static_cast<uint32_t>(type.index()))->values()->LookupByKey(value);
    return choice ? json_text(std::string_view(choice->name()->str())) : json_text(value);
  }

  /// The element at `at` of a vector of scalars, or the scalar there.
  std::string scalar(const reflection::Type& type, BaseType base, const uint8_t* at) const {
    switch (base) {
      case BaseType::Float:
        return json_text(flatbuffers::ReadScalar<float>(at));
      case BaseType::Double:
        return json_text(flatbuffers::ReadScalar<double>(at));
      case BaseType::Byte:
        return named(type, flatbuffers::ReadScalar<int8_t>(at));
      case BaseType::Short:
        return named(type, flatbuffers::ReadScalar<int16_t>(at));
      case BaseType::UShort:
        return named(type, flatbuffers::ReadScalar<uint16_t>(at));
      case BaseType::Int:
        return named(type, flatbuffers::ReadScalar<int32_t>(at));
      case BaseType::UInt:
        return named(type, flatbuffers::ReadScalar<uint32_t>(at));
      case BaseType::Long:
        return named(type, flatbuffers::ReadScalar<int64_t>(at));
      case BaseType::ULong:
        return Cat(flatbuffers::ReadScalar<uint64_t>(at));
      default:
        return named(type, *at);  // Bool, UByte, UType
    }
  }

  std::string list(const Table& table, const reflection::Field& f, int depth) const {
    const reflection::Type& type = *f.type();
    const auto* vector = table.GetPointer<const flatbuffers::VectorOfAny*>(f.offset());
    if (is_vector_of_scalars(type)) {
      static constexpr size_t kSizes[] = {0, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
      const size_t size = kSizes[type.element()];
      return json_list(vector->size(),
                       [&](size_t i) { return scalar(type, type.element(), vector->Data() + i * size); });
    }
    if (type.element() == BaseType::String) {
      const auto* texts =
          table.GetPointer<const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>*>(f.offset());
      return json_list(texts->size(),
                       [&](size_t i) { return json_text(texts->Get(static_cast<uint32_t>(i))->string_view()); });
    }
    if (type.element() != BaseType::Obj) return json_text(std::string_view(Cat(vector->size(), " values")));
    const auto* tables = table.GetPointer<const flatbuffers::Vector<flatbuffers::Offset<Table>>*>(f.offset());
    const auto& object_type = *schema_.objects()->Get(static_cast<uint32_t>(type.index()));
    return json_list(tables->size(),
                     [&](size_t i) { return object(*tables->Get(static_cast<uint32_t>(i)), object_type, depth); });
  }

  /// Empty: the buffer has no value, nor the schema a default.
  std::string field(const Table& table, const reflection::Field& f, int depth) const {
    const reflection::Type& type = *f.type();
    const BaseType base = type.base_type();
    const bool set = table.CheckField(f.offset());
    if (base == BaseType::UType) return "";  // the union's own field says it
    if (base < BaseType::String) {
      if (set) return scalar(type, base, table.GetAddressOf(f.offset()));
      if (base == BaseType::Float) return json_text(static_cast<float>(f.default_real()));
      if (base == BaseType::Double) return json_text(f.default_real());
      return named(type, f.default_integer());
    }
    if (!set) return "";
    if (base == BaseType::String)
      return json_text(table.GetPointer<const flatbuffers::String*>(f.offset())->string_view());
    if (base == BaseType::Vector) return list(table, f, depth);
    if (base == BaseType::Union) {
      const auto [held, held_type] = member(table, f);
      return held ? object(*held, *held_type, depth) : "";
    }
    const auto& held_type = *schema_.objects()->Get(static_cast<uint32_t>(type.index()));
    return base == BaseType::Obj && !held_type.is_struct()
               ? object(*table.GetPointer<const Table*>(f.offset()), held_type, depth)
               : "";
  }

  const reflection::Schema& schema_;
};

}  // namespace

StatedAttributes union_attributes(const uint8_t* schema, std::string_view table_name, std::string_view field,
                                  const Table& table) {
  const reflection::Schema& s = *reflection::GetSchema(schema);
  const auto* object = s.objects()->LookupByKey(std::string(table_name).c_str());
  const auto* f = object ? object->fields()->LookupByKey(std::string(field).c_str()) : nullptr;
  if (!f || f->type()->base_type() != BaseType::Union) return {};
  const Printer printer(s);
  const auto [held, type] = printer.member(table, *f);
  return held ? printer.fields(*held, *type, 0) : StatedAttributes{};
}

}  // namespace smelt

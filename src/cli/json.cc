#include "cli/json.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace smelt::cli {
namespace {

constexpr size_t kDeepest = 500;

const Json kNull;

[[noreturn]] void wrong_type(const char* wanted) { throw std::domain_error(std::string("JSON: no ") + wanted); }

/// The pointee of the alternative of a value, which must be of this type.
template <class T, class V>
auto& as(V& value, const char* wanted) {
  const auto* p = std::get_if<std::unique_ptr<T>>(&value);
  if (!p) wrong_type(wanted);
  return **p;
}

/// Numbers and texts have nlohmann's spelling.
std::string scalar_text(const nlohmann::json& scalar) {
  return scalar.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Builds a value from what a parser reports.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(v); }
  bool number_unsigned(number_unsigned_t v) override { return add(v); }
  bool number_float(number_float_t v, const string_t&) override { return add(v); }
  bool string(string_t& v) override { return add(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

  Json take() { return std::move(whole_); }

 private:
  Json& place(Json v) {
    if (open_.empty()) return whole_ = std::move(v);
    Json& parent = *open_.back();
    if (parent.is_object()) return parent[key_] = std::move(v);
    parent.push_back(std::move(v));
    return parent.back();
  }
  bool add(Json v) {
    place(std::move(v));
    return true;
  }
  bool open(Json v) {
    if (open_.size() >= kDeepest) return false;
    open_.push_back(&place(std::move(v)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json whole_;
  std::vector<Json*> open_;  ///< the arrays and objects around what comes next; none has grown since
  std::string key_;
};

}  // namespace

Json::Json(std::nullptr_t) : value_(nullptr) {}
Json::Json(double v) : value_(v) {}
Json::Json(const char* text) : Json(std::string(text)) {}
Json::Json(std::string_view text) : Json(std::string(text)) {}
Json::Json(std::string text) : value_(std::make_unique<std::string>(std::move(text))) {}

Json::Json(std::initializer_list<Json> items) {
  bool members = true;
  for (const Json& item : items) members = members && item.is_array() && item.size() == 2 && item.front().is_string();
  if (members) {
    auto object = std::make_unique<Object>();
    for (const Json& item : items) {
      Array& pair = as<Array>(item.value_, "array");
      object->try_emplace(std::move(as<std::string>(pair[0].value_, "text")), std::move(pair[1]));
    }
    value_ = std::move(object);
  } else {
    auto list = std::make_unique<Array>();
    list->reserve(items.size());
    for (const Json& item : items) list->emplace_back().value_ = std::move(item.value_);
    value_ = std::move(list);
  }
}

Json::Json(const Json& other) {
  const auto copy = [this]<class T>(const T& v) {
    if constexpr (requires { *v; })
      value_ = std::make_unique<typename T::element_type>(*v);
    else
      value_ = v;
  };
  std::visit(copy, other.value_);
}

Json::Json(Json&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}

Json& Json::operator=(Json other) noexcept {
  value_.swap(other.value_);
  return *this;
}

Json::~Json() = default;

Json Json::array() {
  Json out;
  out.value_ = std::make_unique<Array>();
  return out;
}

Json Json::object() {
  Json out;
  out.value_ = std::make_unique<Object>();
  return out;
}

std::optional<Json> Json::parse(std::string_view text) {
  Builder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return builder.take();
}

bool Json::is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
bool Json::is_bool() const { return std::holds_alternative<bool>(value_); }
bool Json::is_number() const { return value_.index() >= 2 && value_.index() <= 4; }
bool Json::is_integer() const { return value_.index() == 2 || value_.index() == 3; }
bool Json::is_unsigned() const {
  const auto* v = std::get_if<int64_t>(&value_);
  return std::holds_alternative<uint64_t>(value_) || (v && *v >= 0);
}
bool Json::is_string() const { return std::holds_alternative<std::unique_ptr<std::string>>(value_); }
bool Json::is_array() const { return std::holds_alternative<std::unique_ptr<Array>>(value_); }
bool Json::is_object() const { return std::holds_alternative<std::unique_ptr<Object>>(value_); }

template <JsonScalar T>
T Json::get() const {
  if constexpr (std::same_as<T, std::string>) {
    return as<std::string>(value_, "text");
  } else if constexpr (std::same_as<T, bool>) {
    if (!is_bool()) wrong_type("bool");
    return std::get<bool>(value_);
  } else {
    if (const auto* v = std::get_if<int64_t>(&value_)) return static_cast<T>(*v);
    if (const auto* v = std::get_if<uint64_t>(&value_)) return static_cast<T>(*v);
    if (const auto* v = std::get_if<double>(&value_)) return static_cast<T>(*v);
    wrong_type("number");
  }
}
template bool Json::get() const;
template int Json::get() const;
template int64_t Json::get() const;
template uint64_t Json::get() const;
template double Json::get() const;
template std::string Json::get() const;

size_t Json::size() const {
  if (is_array()) return as<Array>(value_, "").size();
  if (is_object()) return as<Object>(value_, "").size();
  return is_null() ? 0 : 1;
}

Json& Json::member(std::string_view key) {
  if (is_null()) value_ = std::make_unique<Object>();
  auto& members = as<Object>(value_, "object");
  const auto at = members.find(key);
  return at != members.end() ? at->second : members[std::string(key)];
}

const Json& Json::member(std::string_view key) const {
  const Json* member = find(key);
  return member ? *member : kNull;
}

Json& Json::operator[](size_t index) { return as<Array>(value_, "array").at(index); }
const Json& Json::operator[](size_t index) const { return as<Array>(value_, "array").at(index); }

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const auto& members = as<Object>(value_, "object");
  const auto at = members.find(key);
  return at == members.end() ? nullptr : &at->second;
}

Json Json::value(std::string_view key, Json otherwise) const {
  const Json* member = find(key);
  return member ? *member : otherwise;
}

std::string Json::value(std::string_view key, const char* otherwise) const {
  return value(key, std::string(otherwise));
}

const Json::Object& Json::items() const { return as<Object>(value_, "object"); }

void Json::update(Json members) {
  for (auto& [key, member] : as<Object>(members.value_, "object")) (*this)[key] = std::move(member);
}

void Json::push_back(Json item) {
  if (is_null()) value_ = std::make_unique<Array>();
  as<Array>(value_, "array").push_back(std::move(item));
}

Json* Json::begin() { return is_null() ? nullptr : as<Array>(value_, "array").data(); }
Json* Json::end() { return is_null() ? nullptr : begin() + size(); }
const Json* Json::begin() const { return is_null() ? nullptr : as<Array>(value_, "array").data(); }
const Json* Json::end() const { return is_null() ? nullptr : begin() + size(); }

void Json::write(std::string& out, int indent, size_t depth) const {
  const auto line = [&](size_t level) {
    if (indent >= 0) out.append("\n").append(level * static_cast<size_t>(indent), ' ');
  };
  const auto separate = [&](bool first) {
    if (!first) out += ',';
    line(depth + 1);
  };
  if (is_array() || is_object()) {
    const char* const brackets = is_array() ? "[]" : "{}";
    out += brackets[0];
    bool first = true;
    if (is_array()) {
      for (const Json& item : *this) {
        separate(std::exchange(first, false));
        item.write(out, indent, depth + 1);
      }
    } else {
      for (const auto& [key, member] : items()) {
        separate(std::exchange(first, false));
        out.append(scalar_text(key)).append(indent >= 0 ? ": " : ":");
        member.write(out, indent, depth + 1);
      }
    }
    if (!first) line(depth);
    out += brackets[1];
  } else if (is_null()) {
    out += "null";
  } else if (const auto* integer = std::get_if<int64_t>(&value_)) {
    out += std::to_string(*integer);
  } else if (const auto* natural = std::get_if<uint64_t>(&value_)) {
    out += std::to_string(*natural);
  } else if (const auto* real = std::get_if<double>(&value_)) {
    out += scalar_text(*real);
  } else if (is_bool()) {
    out += std::get<bool>(value_) ? "true" : "false";
  } else {
    out += scalar_text(as<std::string>(value_, "text"));
  }
}

std::string Json::dump(int indent) const {
  std::string out;
  write(out, indent, 0);
  return out;
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    const auto* i = std::get_if<int64_t>(&a.value_);
    const auto* j = std::get_if<int64_t>(&b.value_);
    const auto* u = std::get_if<uint64_t>(&a.value_);
    const auto* v = std::get_if<uint64_t>(&b.value_);
    if ((i || u) && (j || v))
      return i && j ? *i == *j : i ? std::cmp_equal(*i, *v) : j ? std::cmp_equal(*u, *j) : *u == *v;
    return a.get<double>() == b.get<double>();
  }
  const auto same = [&b]<class T>(const T& v) {
    const auto* w = std::get_if<T>(&b.value_);
    if constexpr (requires { *v; })
      return w && *v == **w;
    else
      return w && v == *w;
  };
  return std::visit(same, a.value_);
}

}  // namespace smelt::cli

// A JSON value.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace smelt::cli {

class Json;

/// Types that a JSON value converts to.
template <class T>
concept JsonScalar = std::same_as<T, bool> || std::same_as<T, int> || std::same_as<T, int64_t> ||
    std::same_as<T, uint64_t> || std::same_as<T, double> || std::same_as<T, std::string>;

/// A JSON value: null, a bool, a number, a text, an array, or an object, whose members are in the order of their names.
/// A list in braces is an object if all its elements are pairs that begin with a text, else an array. What asks for a
/// type that the value is not of throws std::domain_error.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  Json(std::nullptr_t = nullptr);
  template <std::integral T>
  Json(T v) {
    if constexpr (std::same_as<T, bool>)
      value_ = v;
    else if constexpr (std::signed_integral<T>)
      value_ = int64_t{v};
    else
      value_ = uint64_t{v};
  }
  Json(double v);
  Json(const char* text);
  Json(std::string text);
  Json(std::string_view text);
  template <class T>
  Json(const std::vector<T>& items) : Json(array()) {
    for (const T& item : items) push_back(item);
  }
  template <class T, size_t N>
  Json(const std::array<T, N>& items) : Json(array()) {
    for (const T& item : items) push_back(item);
  }
  Json(std::initializer_list<Json> items);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json();

  static Json array();
  static Json object();
  /// Nothing if the text is no JSON, or nested deeper than 500 values.
  static std::optional<Json> parse(std::string_view text);

  bool is_null() const;
  bool is_bool() const;
  bool is_number() const;
  bool is_integer() const;
  bool is_unsigned() const;  ///< an integer that is not negative
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;

  template <JsonScalar T>
  T get() const;
  template <JsonScalar T>
  operator T() const {
    return get<T>();
  }

  /// Of arrays and objects, the number of elements; 0 of null, 1 of others.
  size_t size() const;
  bool empty() const { return size() == 0; }

  /// A member; null becomes an object, and a member that is not there null.
  template <std::convertible_to<std::string_view> Key>
  Json& operator[](const Key& key) {
    return member(key);
  }
  /// A member; null where there is none.
  template <std::convertible_to<std::string_view> Key>
  const Json& operator[](const Key& key) const {
    return member(key);
  }
  Json& operator[](size_t index);
  const Json& operator[](size_t index) const;
  const Json* find(std::string_view key) const;  ///< null where the value is no object or lacks the member
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// A member, or `otherwise` where there is none.
  Json value(std::string_view key, Json otherwise) const;
  template <JsonScalar T>
  T value(std::string_view key, T otherwise) const {
    const Json* member = find(key);
    return member ? member->get<T>() : otherwise;
  }
  std::string value(std::string_view key, const char* otherwise) const;
  const Object& items() const;
  /// Sets all members that `members`, an object, has.
  void update(Json members);

  /// Appends to an array; null becomes one.
  void push_back(Json item);
  Json& front() { return (*this)[0]; }
  const Json& front() const { return (*this)[0]; }
  Json& back() { return (*this)[size() - 1]; }
  const Json& back() const { return (*this)[size() - 1]; }
  /// The elements of an array; none of null.
  Json* begin();
  Json* end();
  const Json* begin() const;
  const Json* end() const;

  /// JSON's text, on one line or indented by so many spaces a level. Text that is not UTF-8 is mended.
  std::string dump(int indent = -1) const;

  friend bool operator==(const Json& a, const Json& b);
  template <class T>
  requires(std::is_arithmetic_v<T> || std::convertible_to<const T&, std::string_view>) friend bool operator==(
      const Json& a, const T& b) {
    return a == Json(b);
  }

 private:
  Json& member(std::string_view key);
  const Json& member(std::string_view key) const;
  void write(std::string& out, int indent, size_t depth) const;

  using Value = std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::unique_ptr<std::string>,
                             std::unique_ptr<Array>, std::unique_ptr<Object>>;
  mutable Value value_;  ///< mutable: a list in braces is moved from, though its elements are constant
};

}  // namespace smelt::cli

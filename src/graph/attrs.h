#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "smelt/tensor.h"

namespace smelt {

/// Sees every field of an attribute struct: the printer, JSON output and structural equality are visitors.
class AttrVisitor {
 public:
  virtual ~AttrVisitor() = default;
  virtual void field(const char* name, bool v) = 0;
  virtual void field(const char* name, int64_t v) = 0;
  virtual void field(const char* name, double v) = 0;
  virtual void field(const char* name, const std::string& v) = 0;
  virtual void field(const char* name, const std::vector<int64_t>& v) = 0;
  virtual void field(const char* name, const std::vector<double>& v) = 0;
  virtual void field(const char* name, const std::vector<std::string>& v) = 0;

  template <class T>
  void any(const char* name, const T& v) {
    if constexpr (std::is_same_v<T, bool>)
      field(name, v);
    else if constexpr (std::is_enum_v<T>)
      field(name, std::string(to_string(v)));
    else if constexpr (std::is_integral_v<T>)
      field(name, static_cast<int64_t>(v));
    else if constexpr (std::is_floating_point_v<T>)
      field(name, static_cast<double>(v));
    else if constexpr (std::is_same_v<T, std::vector<float>>)
      field(name, std::vector<double>(v.begin(), v.end()));
    else if constexpr (std::is_same_v<T, std::vector<int>>)
      field(name, std::vector<int64_t>(v.begin(), v.end()));
    else if constexpr (requires { field(name, std::string(to_string(v))); })
      field(name, std::string(to_string(v)));
    else
      field(name, v);
  }
};

/// Its address tells an attribute struct from all others.
template <class A>
inline char attrs_type;

/// Base of the attribute structs, one struct an operator family.
struct Attrs {
  virtual ~Attrs() = default;
  virtual void visit(AttrVisitor& v) const = 0;
  virtual const void* type() const = 0;  ///< &attrs_type<the struct>
};
using AttrsPtr = std::shared_ptr<const Attrs>;

/// Calls `f(name, value)` for each field, in order; `f` takes the types of AttrVisitor::field(). Null: no fields.
template <class F>
void for_each_field(const Attrs* attrs, const F& f) {
  class Each final : public AttrVisitor {
   public:
    explicit Each(const F& f) : f_(f) {}
    void field(const char* name, bool v) override { f_(name, v); }
    void field(const char* name, int64_t v) override { f_(name, v); }
    void field(const char* name, double v) override { f_(name, v); }
    void field(const char* name, const std::string& v) override { f_(name, v); }
    void field(const char* name, const std::vector<int64_t>& v) override { f_(name, v); }
    void field(const char* name, const std::vector<double>& v) override { f_(name, v); }
    void field(const char* name, const std::vector<std::string>& v) override { f_(name, v); }

   private:
    const F& f_;
  };
  Each each(f);
  if (attrs) attrs->visit(each);
}

/// Inside an attribute struct: overrides Attrs::type().
#define SMELT_ATTRS_TYPE \
  const void* type() const override { return &::smelt::attrs_type<std::remove_cvref_t<decltype(*this)>>; }

/// For operators without attributes.
struct NoAttrs : Attrs {
  void visit(AttrVisitor&) const override {}
  SMELT_ATTRS_TYPE
};

template <class T, class... A>
AttrsPtr make_attrs(A&&... args) {
  return std::make_shared<const T>(std::forward<A>(args)...);
}

}  // namespace smelt

#define SMELT_PARENS ()
#define SMELT_EXPAND(...) SMELT_EXPAND4(SMELT_EXPAND4(SMELT_EXPAND4(SMELT_EXPAND4(__VA_ARGS__))))
#define SMELT_EXPAND4(...) SMELT_EXPAND3(SMELT_EXPAND3(SMELT_EXPAND3(SMELT_EXPAND3(__VA_ARGS__))))
#define SMELT_EXPAND3(...) SMELT_EXPAND2(SMELT_EXPAND2(SMELT_EXPAND2(__VA_ARGS__)))
#define SMELT_EXPAND2(...) __VA_ARGS__
#define SMELT_VISIT_EACH(...) __VA_OPT__(SMELT_EXPAND(SMELT_VISIT_ONE(__VA_ARGS__)))
#define SMELT_VISIT_ONE(f, ...) \
  v.any(#f, f);                 \
  __VA_OPT__(SMELT_VISIT_AGAIN SMELT_PARENS(__VA_ARGS__))
#define SMELT_VISIT_AGAIN() SMELT_VISIT_ONE

/// Inside an attribute struct: names its fields once, for every visitor.
#define SMELT_FIELDS(...) \
  SMELT_ATTRS_TYPE        \
  void visit([[maybe_unused]] ::smelt::AttrVisitor& v) const override { SMELT_VISIT_EACH(__VA_ARGS__) }

// The keys of JSON objects, listed once for what is written and for its JSON Schema: a function fields(to, value) calls
// to(key, meaning, value of the key) for each key in the order of the JSON, and `to` is a Writer or a Schema. The
// latter calls it with a value of defaults, of which it uses types alone. These are templates because the headers of
// the JSON library stay in sources.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "reports/json/document.h"

namespace plumbline::reports {

// Besides numbers, texts, flags, enumerators, lists, tables by name, optional ones of these and types that have
// fields(), the value of a key is one of these:

// an object with the keys of fields(to),
template <class Fields>
struct Object {
  explicit Object(Fields of) : fields(std::move(of)) {}
  Fields fields;
};
// the same with a name in defs.schema.json, to which schemas refer,
template <class Fields>
struct Defined {
  Defined(std::string_view name, Fields of) : definition(name), fields(std::move(of)) {}
  std::string_view definition;
  Fields fields;
};
// a list of objects with the keys of fields(to, row),
template <class Rows, class Fields>
struct List {
  List(const Rows& of, Fields row) : rows(of), fields(std::move(row)) {}
  const Rows& rows;
  Fields fields;
};
// an object with the keys of fields(to, *value), null where there is none,
template <class Value, class Fields>
struct Maybe {
  Maybe(const std::optional<Value>& of, Fields known) : value(of), fields(std::move(known)) {}
  const std::optional<Value>& value;
  Fields fields;
};
// one of several words, or null,
struct Word {
  std::optional<std::string_view> text;
  std::vector<std::string_view> words;
  bool nullable = false;
};
// JSON, with what its schema states: {"$ref": ...} of a definition.
template <class Json>
struct Stated {
  Json value, schema;
};

// Which of these a type is.
template <class T>
inline constexpr bool is_list = false;
template <class Rows, class Fields>
inline constexpr bool is_list<List<Rows, Fields>> = true;
template <class T>
inline constexpr bool is_maybe = false;
template <class Value, class Fields>
inline constexpr bool is_maybe<Maybe<Value, Fields>> = true;
template <class T>
inline constexpr bool is_stated = false;
template <class Json>
inline constexpr bool is_stated<Stated<Json>> = true;

// The name of a type's definition; "": schemas describe it where it is used.
template <class T>
inline constexpr std::string_view definition_name = "";

template <class Json>
Json reference(std::string_view definition) {
  return {{"$ref", "defs.schema.json#/$defs/" + std::string(definition)}};
}

// Returns a value where it is known.
template <class Value>
std::optional<Value> where(bool known, const Value& value) {
  return known ? std::optional(value) : std::nullopt;
}
inline std::optional<std::string> unless_empty(const std::string& text) { return where(!text.empty(), text); }

// Writes an object.
template <class Json>
class Writer {
 public:
  Json json = Json::object();

  template <class T>
  void operator()(std::string_view key, std::string_view, const T& value) {
    json[std::string(key)] = of(value);
  }
  // A key that is left out where it is not there.
  template <class T>
  void only_where(bool there, std::string_view key, std::string_view meaning, const T& value) {
    if (there) (*this)(key, meaning, value);
  }

  template <class T>
  static Json of(const T& value) {
    const auto object = [](const auto& fields, const auto&... row) {
      Writer inner;
      fields(inner, row...);
      return std::move(inner.json);
    };
    if constexpr (requires(Writer & to) { fields(to, value); }) {
      return object([](Writer& to, const T& row) { fields(to, row); }, value);
    } else if constexpr (is_list<T>) {
      Json list = Json::array();
      for (const auto& row : value.rows) list.push_back(object(value.fields, row));
      return list;
    } else if constexpr (is_maybe<T>) {
      return value.value ? object(value.fields, *value.value) : Json(nullptr);
    } else if constexpr (requires { value.fields; }) {
      return object(value.fields);
    } else if constexpr (std::is_base_of_v<Word, T>) {
      return of(value.text);
    } else if constexpr (is_stated<T>) {
      return value.value;
    } else if constexpr (requires { value.has_value(); }) {
      return value ? of(*value) : Json(nullptr);
    } else if constexpr (std::is_enum_v<T>) {
      return Json(to_string(value));
    } else if constexpr (requires { typename T::mapped_type; }) {
      Json table = Json::object();
      for (const auto& [key, entry] : value) table[key] = of(entry);
      return table;
    } else if constexpr (requires { value.begin(); } && !std::is_convertible_v<T, std::string_view>) {
      Json list = Json::array();
      for (const typename T::value_type& row : value) list.push_back(of(row));
      return list;
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::isfinite(value) ? Json(value) : Json(nullptr);
    } else {
      return Json(value);
    }
  }
};

// Returns the JSON of a value.
template <class Json, class T>
Json written(const T& value) {
  return Writer<Json>::of(value);
}

// Returns the object with the keys of fields(to).
template <class Json, class Fields>
Json object_of(const Fields& fields) {
  return written<Json>(Object(fields));
}

// Returns the schema of a value that may be null as well.
template <class Json>
Json or_null(Json schema) {
  if (schema.contains("enum"))
    schema["enum"].push_back(nullptr);
  else if (schema.contains("type") && schema["type"].is_string())
    schema["type"] = {schema["type"], "null"};
  else
    schema = {{"anyOf", {schema, {{"type", "null"}}}}};
  return schema;
}

template <class Json>
Json with_description(std::string_view description, const Json& schema) {
  if (description.empty()) return schema;
  Json described = {{"description", description}};
  described.update(schema);
  return described;
}

// Describes an object: its keys, all of which are required but those that may be left out, and their types.
template <class Json>
class Schema {
 public:
  template <class T>
  void operator()(std::string_view key, std::string_view meaning, const T& value) {
    required_.emplace_back(key);
    only_where(true, key, meaning, value);
  }
  template <class T>
  void only_where(bool, std::string_view key, std::string_view meaning, const T& value) {
    properties_[std::string(key)] = with_description(meaning, of(value));
  }

  Json json() const {
    return {{"type", "object"}, {"required", required_}, {"additionalProperties", false}, {"properties", properties_}};
  }

  template <class T>
  static Json of(const T& value) {
    if constexpr (!definition_name<T>.empty())
      return reference<Json>(definition_name<T>);
    else if constexpr (requires { value.definition; })
      return reference<Json>(value.definition);
    else
      return in_full(value);
  }

  // Returns the schema of a value in full, not a reference to its definition.
  template <class T>
  static Json in_full(const T& value) {
    const auto object = [](const auto& fields, const auto&... row) {
      Schema inner;
      fields(inner, row...);
      return inner.json();
    };
    const auto list = [](const Json& items) { return Json{{"type", "array"}, {"items", items}}; };
    if constexpr (requires(Schema & to) { fields(to, value); }) {
      return object([](Schema& to, const T& row) { fields(to, row); }, value);
    } else if constexpr (is_list<T>) {
      return list(object(value.fields, typename std::decay_t<decltype(value.rows)>::value_type{}));
    } else if constexpr (is_maybe<T>) {
      return or_null(object(value.fields, typename std::decay_t<decltype(value.value)>::value_type{}));
    } else if constexpr (requires { value.fields; }) {
      return object(value.fields);
    } else if constexpr (std::is_base_of_v<Word, T>) {
      const Json words = {{"enum", value.words}};
      return value.nullable ? or_null(words) : words;
    } else if constexpr (is_stated<T>) {
      return value.schema;
    } else if constexpr (requires { value.has_value(); }) {
      return or_null(of(value ? *value : typename T::value_type{}));
    } else if constexpr (requires { typename T::mapped_type; }) {
      return Json{{"type", "object"}, {"additionalProperties", of(typename T::mapped_type{})}};
    } else if constexpr (std::is_enum_v<T> || std::is_convertible_v<T, std::string_view>) {
      return Json{{"type", "string"}};
    } else if constexpr (requires { value.begin(); }) {
      return list(of(typename T::value_type{}));
    } else {
      constexpr bool whole = std::is_integral_v<T>;
      Json schema = {{"type", std::is_same_v<T, bool> ? "boolean" : whole ? "integer" : "number"}};
      if (std::is_unsigned_v<T> && !std::is_same_v<T, bool>) schema["minimum"] = 0;
      return schema;
    }
  }

 private:
  std::vector<std::string> required_;
  Json properties_ = Json::object();
};

// Returns the schema of an output, as text, whose keys after the envelope fields(to) has.
template <class Json, class Fields>
std::string keys_schema(const Fields& fields) {
  Schema<Json> body;
  body("plumbline", "", Stated<Json>{nullptr, reference<Json>("plumbline")});
  fields(body);
  return body.json().dump();
}

// Returns the schema of an output that has fields().
template <class Json, class Answer>
std::string schema_of() {
  return keys_schema<Json>([](auto& to) { fields(to, Answer()); });
}

// Returns a definition that outputs share.
template <class Json>
Json definition(std::string_view description, const auto& value) {
  return with_description(description, Schema<Json>::in_full(value));
}

// JSON Schemas of outputs, each next to what writes the output, and definitions that they share: {"NAME": schema, ...}.
std::string plan_schema();  // of the keys of a plan
std::string step_definitions();
std::string simulate_schema();
std::string run_schema();
std::string memory_schema();
std::string campaign_definitions();
std::string campaign_schema();
std::string plan_answer_schema();
std::string deployments_schema();
std::string rollout_plans_schema();
std::string serving_definitions();
std::string serving_schema();
std::string generation_schema();
std::string sweep_schema();
std::string tornado_schema();
std::string solve_schema();
std::string result_comparison_schema();
std::string trace_comparison_schema();
std::string chunk_comparison_schema();
std::string validation_schema();
std::string ledger_schema();
std::string schedule_definitions();
std::string schedule_schema();
std::string schedule_comparison_schema();
std::string routing_schema();

}  // namespace plumbline::reports

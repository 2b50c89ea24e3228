// The frame that JSON outputs share. These are templates because the headers of the JSON library stay in sources.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/base/version.h"

namespace plumbline::reports {

template <class Json>
Json value_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class Json>
Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// Returns the document as text. Bytes of a name or a source that are not UTF-8 are replaced. `indent` -1: on one line.
template <class Json>
std::string text_of_json(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + '\n';
}

// Returns the document {"plumbline": {version, schema, output}, members of `body` ...}. It has the form that
// reports/schema/OUTPUT.schema.json describes.
template <class Json>
std::string document(std::string_view output, const Json& body, int indent = 2) {
  Json json = {{"plumbline", {{"version", model::version}, {"schema", model::schema}, {"output", output}}}};
  json.update(body);
  return text_of_json(json, indent);
}

}  // namespace plumbline::reports

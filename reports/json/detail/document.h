// The frame that JSON outputs share. These are templates because the headers of the JSON library stay in sources.
#pragma once

#include <optional>
#include <string>

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

// The document {"plumbline": {version, schema}, members of `body` ...}. Bytes that are no UTF-8 are replaced.
template <class Json>
std::string document(const Json& body) {
  Json json = {{"plumbline", {{"version", model::version}, {"schema", model::schema}}}};
  json.update(body);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline::reports

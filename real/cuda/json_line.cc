#include "real/cuda/json_line.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace plumbline::real::cuda {

namespace {

std::string quoted(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      text += code;
    } else {
      text += c;
    }
  }
  return text + "\"";
}

}  // namespace

void JsonLine::add(const std::string& key, const std::string& value) {
  if (!body_.empty()) body_ += ",";
  body_ += quoted(key) + ":" + value;
}

JsonLine& JsonLine::text(const std::string& key, const std::string& value) {
  add(key, quoted(value));
  return *this;
}

JsonLine& JsonLine::number(const std::string& key, double value) {
  if (!std::isfinite(value)) return *this;
  char text[64];
  const auto result = std::to_chars(text, text + sizeof text, value);
  add(key, std::string(text, result.ptr));
  return *this;
}

JsonLine& JsonLine::integer(const std::string& key, std::int64_t value) {
  add(key, std::to_string(value));
  return *this;
}

JsonLine& JsonLine::flag(const std::string& key, bool value) {
  add(key, value ? "true" : "false");
  return *this;
}

JsonLine& JsonLine::object(const std::string& key, const JsonLine& value) {
  if (!value.body_.empty()) add(key, value.str());
  return *this;
}

std::string read_text(const std::string& line, const std::string& key) {
  const std::string start = quoted(key) + ":\"";
  std::size_t at = line.find(start);
  if (at == std::string::npos) return "";
  std::string value;
  for (at += start.size(); at < line.size() && line[at] != '"'; ++at) {
    const bool escaped = line[at] == '\\' && at + 1 < line.size();
    if (escaped) ++at;
    if (escaped && line[at] == 'u' && at + 4 < line.size()) {
      value += static_cast<char>(std::strtol(line.substr(at + 1, 4).c_str(), nullptr, 16));
      at += 4;
    } else {
      value += line[at];
    }
  }
  return value;
}

}  // namespace plumbline::real::cuda

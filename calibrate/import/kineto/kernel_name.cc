#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "calibrate/import/kineto/import.h"

namespace plumbline::calibrate {
namespace {

constexpr std::size_t longest = 60;
constexpr std::string_view anonymous = "(anonymous namespace)::";

// Returns the name without text in angle brackets and without the parameter list.
std::string outline(std::string_view name) {
  std::string text;
  int depth = 0;
  while (!name.empty()) {
    if (name.starts_with(anonymous)) {
      name.remove_prefix(anonymous.size());
      continue;
    }
    const char c = name.front();
    name.remove_prefix(1);
    if (c == '<') {
      ++depth;
    } else if (c == '>' && depth > 0) {
      --depth;
    } else if (c == '(' && depth == 0 && !text.empty()) {
      break;
    } else if (depth == 0) {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string short_kernel_name(const std::string& name) {
  // Copies have names like "Memcpy DtoD (Device -> Device)".
  const bool copy = name.starts_with("Mem");
  std::string text = copy ? name.substr(0, name.find(" (")) : outline(name);
  if (text.starts_with("void ")) text.erase(0, std::string_view("void ").size());
  if (text.empty()) text = name;
  return as_word(std::move(text));
}

std::string as_word(std::string text) {
  text.resize(std::min(text.size(), longest));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c <= ' ' || c == ',' || c == '"' || c == 0x7f; }, '_');
  return text;
}

}  // namespace plumbline::calibrate

#include "real/measure/case_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <optional>
#include <sstream>

#include "model/base/text_file.h"

namespace plumbline::real {
namespace {

using model::Result;
using Cases = std::vector<KernelCase>;

constexpr const char* keys_hint = "docs/measuring.md lists operations and keys";
constexpr const char* form_hint =
    "write [[case]] tables with op = \"gemm\", m = 4096, ...; docs/measuring.md lists the keys";

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

model::Failure wrong(const std::string& path, int line, std::string key, std::string message,
                     std::string hint = form_hint) {
  return model::wrong_input_at(path, line, std::move(key), std::move(message), std::move(hint));
}

// Returns a whole number or a word as text; nullopt for anything else.
std::optional<std::string> word(const toml::node& node) {
  if (const auto number = node.value_exact<std::int64_t>()) return fmt::format("{}", *number);
  const auto text = node.value_exact<std::string>();
  const bool plain = text && !text->empty() && text->find_first_of(" \t\n\r#=") == std::string::npos;
  return plain ? text : std::nullopt;
}

Result<KernelCase> parsed(const std::string& text, const std::string& path, int line, std::string key) {
  auto value = parse_kernel_case(text);
  const char* hint = key.empty() ? keys_hint : "";
  if (!value) return wrong(path, line, std::move(key), value.error().message, hint);
  return value;
}

Result<KernelCase> case_from(const toml::table& table, const std::string& path) {
  const auto op = table["op"].value_exact<std::string>();
  if (!op) return wrong(path, line_of(table), "case.op", "a case without an operation");
  std::string text = *op;
  for (const auto& [key, node] : table) {
    if (key.str() == "op") continue;
    const auto value = word(node);
    if (!value)
      return wrong(path, line_of(node), fmt::format("case.{}", key.str()), "expected a whole number or one word");
    text += fmt::format(" {}={}", key.str(), *value);
  }
  return parsed(text, path, line_of(table), "case");
}

Result<Cases> cases_from(const toml::table& root, const std::string& path) {
  Cases found;
  for (const auto& [key, node] : root) {
    const toml::array* cases = node.as_array();
    if (key.str() != "case" || cases == nullptr)
      return wrong(path, line_of(node), std::string(key.str()), "unknown key");
    for (const toml::node& item : *cases) {
      if (!item.is_table()) return wrong(path, line_of(item), "case", "a case is a table");
      auto one = TRY(case_from(*item.as_table(), path));
      found.push_back(std::move(one));
    }
  }
  if (found.empty()) return wrong(path, 0, "case", "holds no case");
  return found;
}

Result<Cases> cases_in_lines(const std::string& text, const std::string& path) {
  Cases found;
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::string plain = line.substr(0, line.find('#'));
    if (plain.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto one = TRY(parsed(plain, path, number, ""));
    found.push_back(std::move(one));
  }
  return found;
}

}  // namespace

Result<Cases> read_case_file(const std::string& path) {
  const bool toml = path.ends_with(".toml");
  if (!toml && !path.ends_with(".cases"))
    return wrong(path, 0, "", "not a case file", "its name ends in .toml or .cases");
  const auto text = TRY(model::read_text_file(path));
  if (!toml) return cases_in_lines(text, path);
  try {
    return cases_from(toml::parse(text, path), path);
  } catch (const toml::parse_error& failure) {
    return wrong(path, static_cast<int>(failure.source().begin.line), "", std::string(failure.description()));
  }
}

}  // namespace plumbline::real

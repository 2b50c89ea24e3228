#include "cli/case_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <optional>
#include <sstream>

#include "model/base/text_file.h"
#include "real/cuda/probe/case.h"

namespace plumbline::cli {
namespace {

using model::Error;
using model::ErrorKind;
using model::Result;

constexpr const char* form_hint =
    "write [[case]] tables with op = \"gemm\", m = 4096, ...; docs/measuring.md lists the keys";

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

tl::unexpected<Error> wrong(const std::string& path, int line, std::string key, std::string message,
                            std::string hint = form_hint) {
  return tl::unexpected(Error{ErrorKind::input, std::move(message), path, line, std::move(key), std::move(hint)});
}

// A whole number, or a word; nullopt for anything else.
std::optional<std::string> word(const toml::node& node) {
  if (const auto number = node.value_exact<std::int64_t>()) return fmt::format("{}", *number);
  const auto text = node.value_exact<std::string>();
  const bool plain = text && !text->empty() && text->find_first_of(" \t\n\r#=") == std::string::npos;
  return plain ? text : std::nullopt;
}

Result<std::string> line_from(const toml::table& table, const std::string& path) {
  const auto op = table["op"].value_exact<std::string>();
  if (!op) return wrong(path, line_of(table), "case.op", "a case without an operation");
  std::string line = *op;
  for (const auto& [key, node] : table) {
    if (key.str() == "op") continue;
    const auto value = word(node);
    if (!value)
      return wrong(path, line_of(node), fmt::format("case.{}", key.str()), "expected a whole number or one word");
    line += fmt::format(" {}={}", key.str(), *value);
  }
  const real::cuda::ParsedCase parsed = real::cuda::parse_case(line);
  if (!parsed.error.empty()) return wrong(path, line_of(table), "case", parsed.error, "");
  return real::cuda::to_line(parsed.value);
}

Result<std::string> lines_from(const toml::table& root, const std::string& path) {
  std::string lines;
  for (const auto& [key, node] : root) {
    const toml::array* cases = node.as_array();
    if (key.str() != "case" || cases == nullptr)
      return wrong(path, line_of(node), std::string(key.str()), "unknown key");
    for (const toml::node& item : *cases) {
      if (!item.is_table()) return wrong(path, line_of(item), "case", "a case is a table");
      auto line = line_from(*item.as_table(), path);
      if (!line) return line;
      lines += *line + '\n';
    }
  }
  return lines;
}

Result<std::string> check_lines(const std::string& text, const std::string& path) {
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::string plain = line.substr(0, line.find('#'));
    if (plain.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string problem = real::cuda::parse_case(plain).error;
    if (!problem.empty()) return wrong(path, number, "", problem, "docs/measuring.md lists operations and keys");
  }
  return text;
}

}  // namespace

Result<std::string> read_case_file(const std::string& path) {
  const bool toml = path.ends_with(".toml");
  if (!toml && !path.ends_with(".cases"))
    return wrong(path, 0, "", "not a case file", "its name ends in .toml or .cases");
  const auto text = model::read_text_file(path);
  if (!text || !toml) return text ? check_lines(*text, path) : text;
  try {
    auto lines = lines_from(toml::parse(*text, path), path);
    return lines && lines->empty() ? wrong(path, 0, "case", "holds no case") : lines;
  } catch (const toml::parse_error& failure) {
    return wrong(path, static_cast<int>(failure.source().begin.line), "", std::string(failure.description()));
  }
}

}  // namespace plumbline::cli

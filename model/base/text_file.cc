#include "model/base/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace plumbline::model {
namespace {

constexpr int deepest = 256;

// Counts how deep brackets outside of strings, dotted keys and elements are nested.
class Nesting {
 public:
  explicit Nesting(std::string_view path) : xml_(path.ends_with(".xml")), lines_(path.ends_with(".jsonl")) {}

  // Returns the offset at which the text is nested deeper than any parser's stack should go.
  std::optional<std::size_t> too_deep(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char next = i + 1 < text.size() ? text[i + 1] : ' ';
      if (in_string_ && text[i] == '\\')
        ++i;
      else if (xml_)
        element(text[i], next);
      else
        bracket(text[i]);
      if (std::max(depth_, dots_) > deepest) return i;
    }
    return std::nullopt;
  }

 private:
  void element(char letter, char next) {
    if (letter == '<' && std::isalpha(static_cast<unsigned char>(next)) != 0) ++depth_;
    if ((letter == '<' && next == '/') || (letter == '/' && next == '>')) --depth_;
  }

  void bracket(char letter) {
    if (letter == '\n' || letter == '"') {
      in_string_ = letter == '"' && !in_string_;
      dots_ = 0;
      if (lines_ && letter == '\n') depth_ = 0;
    } else if (!in_string_) {
      if (letter == '[' || letter == '{') ++depth_;
      if (letter == ']' || letter == '}') depth_ = std::max(0, depth_ - 1);
      if (letter == '.') ++dots_;
      if (letter == ' ' || letter == '=' || letter == '#') dots_ = 0;
    }
  }

  bool xml_, lines_, in_string_ = false;
  int depth_ = 0, dots_ = 0;
};

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  std::error_code status_error;
  const auto status = std::filesystem::status(path, status_error);
  if (!std::filesystem::exists(status)) return wrong_input_at(path, 0, "", "no such file", "check the path");
  // A stream opens a folder without an error and then reads nothing from it.
  if (std::filesystem::is_directory(status))
    return wrong_input_at(path, 0, "", "is a folder, not a file", "name a file in it");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return wrong_input_at(path, 0, "", "cannot open the file", std::strerror(errno));
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) return wrong_input_at(path, 0, "", "cannot read the file");
  constexpr std::string_view nested[] = {".json", ".jsonl", ".toml", ".xml"};
  if (std::ranges::any_of(nested, [&](std::string_view extension) { return path.ends_with(extension); }))
    if (const auto offset = Nesting(path).too_deep(text))
      return wrong_input_at(path, line_of_offset(text, *offset), "",
                            fmt::format("nested deeper than {} levels", deepest), "no file that plumbline reads is");
  return text;
}

std::vector<std::string> names_in_folder(const std::string& folder, std::string_view extension) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().extension() == extension) names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

int line_of_offset(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  return 1 + static_cast<int>(std::ranges::count(before, '\n'));
}

}  // namespace plumbline::model

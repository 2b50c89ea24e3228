#include "model/base/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

namespace plumbline::model {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // of UTF-8
constexpr std::size_t largest_file = std::size_t{1} << 30;    // a device may have no end
// A key of as many parts in each of as many tables is what the parsers' stack has to hold.
constexpr int deepest = 64;

// Follows brackets, dotted keys, strings and comments of TOML, of which those of JSON are a part.
class Nesting {
 public:
  explicit Nesting(std::string_view text) : text_(text) {}

  // Returns the offset at which the text is nested too deep.
  std::optional<std::size_t> too_deep() {
    for (std::size_t at = 0; at < text_.size(); ++at) {
      const char letter = text_[at];
      if (letter == '"' || letter == '\'')
        at = end_of_string(at);
      else if (letter == '#')
        at = std::min(text_.find('\n', at), text_.size()) - 1;
      else
        count(letter);
      if (std::max(depth_, dots_) > deepest) return at;
    }
    return std::nullopt;
  }

 private:
  void count(char letter) {
    if (letter == '[' || letter == '{') ++depth_;
    if (letter == ']' || letter == '}') depth_ = std::max(0, depth_ - 1);
    if (letter == '.') ++dots_;
    if (letter == '=' || letter == ',' || letter == '\n') dots_ = 0;
  }

  // Returns the offset of the last letter of a string: its last quote, or what is before the end of its line or text.
  std::size_t end_of_string(std::size_t first) const {
    const char quote = text_[first];
    const std::string three(3, quote);
    const bool long_string = text_.substr(first, 3) == three;
    for (std::size_t at = first + (long_string ? 3 : 1); at < text_.size(); ++at) {
      if (text_[at] == '\\' && quote == '"')
        ++at;
      else if (!long_string && text_[at] == quote)
        return at;
      else if (!long_string && text_[at] == '\n')
        return at - 1;
      else if (long_string && text_.substr(at, 3) == three)  // quotes of the string itself may stand before these
        return std::min(text_.find_first_not_of(quote, at), text_.size()) - 1;
    }
    return text_.size() - 1;
  }

  std::string_view text_;
  int depth_ = 0, dots_ = 0;
};

// Returns the length of the UTF-8 character that begins at an offset; 0: there is none.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const std::size_t length = byte(0) < 0x80              ? 1
                             : (byte(0) >> 5) == 0b110   ? 2
                             : (byte(0) >> 4) == 0b1110  ? 3
                             : (byte(0) >> 3) == 0b11110 ? 4
                                                         : 0;
  if (length > text.size() - at) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

}  // namespace

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

Result<std::string> read_file(const std::string& path) {
  std::error_code status_error;
  const auto status = std::filesystem::status(path, status_error);
  if (!std::filesystem::exists(status)) return wrong_input_at(path, 0, "", "no such file", "check the path");
  // A stream opens a folder without an error and then reads nothing from it.
  if (std::filesystem::is_directory(status))
    return wrong_input_at(path, 0, "", "is a folder, not a file", "name a file in it");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return wrong_input_at(path, 0, "", "cannot open the file", std::strerror(errno));
  std::string text;
  std::vector<char> piece(1 << 20);
  while (stream.read(piece.data(), static_cast<std::streamsize>(piece.size())) || stream.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > largest_file)
      return wrong_input_at(path, 0, "", fmt::format("larger than {} GiB", largest_file >> 30), "name a smaller file");
  }
  if (stream.bad()) return wrong_input_at(path, 0, "", "cannot read the file", std::strerror(errno));
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return wrong_input_at(path, 0, "", "is UTF-16, not UTF-8", "iconv -f UTF-16 -t UTF-8 converts it");
  return text;
}

Result<void> check_utf8(std::string_view text, const std::string& path, int first_line) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    if (length == 0)
      return wrong_input_at(
          path, line_of_offset(text, at) + first_line - 1, "", "is not UTF-8",
          fmt::format("save it as UTF-8; the byte is 0x{:02x}", static_cast<unsigned char>(text[at])));
    at += length;
  }
  return {};
}

Result<std::string> read_text_file(const std::string& path) {
  auto text = TRY(read_file(path));
  TRY(check_utf8(text, path));
  return text;
}

Result<void> check_nesting(std::string_view text, const std::string& path, int first_line) {
  const auto offset = Nesting(text).too_deep();
  if (!offset) return {};
  return wrong_input_at(path, line_of_offset(text, *offset) + first_line - 1, "",
                        fmt::format("nested deeper than {} levels", deepest), "no file that plumbline reads is");
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

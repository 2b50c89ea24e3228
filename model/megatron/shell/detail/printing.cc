// Commands whose output follows from their words.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/evaluator.h"

namespace plumbline::model::megatron {
namespace {

namespace fs = std::filesystem;

bool all_known(const Fields& fields) { return std::ranges::all_of(fields, is_known); }

Letters numbers_between(const Fields& fields) {
  constexpr std::int64_t most = 10'000;
  const auto first = fields.size() > 2 ? integer(text_of(fields[1])) : std::optional<std::int64_t>(1);
  const auto last = integer(text_of(fields.back()));
  const auto step = fields.size() > 3 ? integer(text_of(fields[2])) : std::optional<std::int64_t>(1);
  Letters text;
  if (!first || !last || !step || *step < 1) return text;
  std::int64_t count = 0;
  for (std::int64_t at = *first; at <= *last && ++count <= most; at += *step) {
    const Letters number = letters_of(std::to_string(at) + "\n", 0);
    text.insert(text.end(), number.begin(), number.end());
    if (at > (std::int64_t{1} << 60) || *step > (std::int64_t{1} << 60)) break;
  }
  return text;
}

std::string folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

}  // namespace

// Commands that print what follows from their words; returns whether the command is one.
bool Evaluator::run_text(const std::string& name, const Fields& fields, const Node& node) {
  if (name == "cd" || name == "pushd" || name == "popd") {
    const bool known = fields.size() > 1 && is_known(fields[1]);
    const std::string path = known ? text_of(fields[1]) : "";
    state_.folder = path.starts_with('/')                   ? path
                    : state_.folder.empty() || path.empty() ? ""
                                                            : state_.folder + "/" + path;
    status_ = Truth::yes;
    return true;
  }
  if (name == "echo" || name == "printf") {
    if (output_ == nullptr) return true;
    std::size_t first = 1;
    bool line = true;
    for (; name == "echo" && first < fields.size() && text_of(fields[first]).starts_with('-'); ++first) {
      const std::string option = text_of(fields[first]);
      if (option != "-n" && option != "-e" && option != "-ne" && option != "-en") break;
      line = line && option.find('n') == std::string::npos;
    }
    if (name == "printf") {
      const std::string format = fields.size() > 1 ? text_of(fields[1]) : "";
      const bool plain = format.find('%') == std::string::npos && format.find('\\') == std::string::npos;
      if (!plain && format != "%s" && format != "%s\\n" && format != "%d" && format != "%d\\n") *output_ = std::nullopt;
      if (!plain) first = 2;
      line = false;
    }
    print(joined(fields, first));
    if (line) print(letters_of("\n", 0));
    return true;
  }
  if (output_ == nullptr) return false;
  const auto output = known_output(name, fields, node);
  if (!output) return false;
  print(*output);
  return true;
}

void Evaluator::print(const Letters& text) {
  if (output_ == nullptr || !*output_ || !charge(text.size())) return;
  for (Letter letter : text) {
    letter.quoted = false;
    (*output_)->push_back(letter);
  }
}

// Returns what the command reads: its here-document or the output of the command before |.
std::optional<Letters> Evaluator::input_of(const Node& node) {
  if (node.document && syntax_ != nullptr && *node.document < syntax_->documents.size()) {
    const Document& document = syntax_->documents[*node.document];
    return document.quoted ? document.text : read_text(document.text, *this);
  }
  return piped_ ? input_ : std::nullopt;
}

std::optional<Letters> Evaluator::known_output(const std::string& name, const Fields& fields, const Node& node) {
  status_ = Truth::yes;
  const auto first = [&]() -> std::optional<std::string> {
    const bool option = fields.size() > 2 && text_of(fields[1]).starts_with('-');
    if (fields.size() < 2 || !is_known(fields.back())) return std::nullopt;
    return text_of(fields[option ? 2 : 1]);
  };
  const auto text = [](const std::string& line) { return letters_of(line + "\n", 0); };
  if (name == "cat" && fields.size() == 1) return input_of(node);
  if (name == "pwd" && !state_.folder.empty()) return text(fs::path(state_.folder).lexically_normal().string());
  if (name == "bc") {
    const auto input = input_of(node);
    const auto number = input ? read_number(*input, *this) : std::nullopt;
    if (number) return text(std::to_string(*number));
  }
  if (!all_known(fields)) {
    for (const Letters& field : fields)
      if (!is_known(field)) unknown_ += text_of(field) + " ";
    return std::nullopt;
  }
  if (name == "dirname" && first()) return text(folder_of(*first()));
  if (name == "basename" && fields.size() > 1) {
    std::string last = fs::path(text_of(fields[1])).filename().string();
    const std::string ending = fields.size() > 2 ? text_of(fields[2]) : "";
    if (!ending.empty() && last.ends_with(ending)) last.resize(last.size() - ending.size());
    return text(last);
  }
  if ((name == "realpath" || name == "readlink") && first() && first()->starts_with('/'))
    return text(fs::path(*first()).lexically_normal().string());
  if (name == "seq" && fields.size() > 1) return numbers_between(fields);
  if (name == "expr") {
    const auto number = read_number(joined(fields, 1), *this);
    if (number) return text(std::to_string(*number));
  }
  return std::nullopt;
}

}  // namespace plumbline::model::megatron

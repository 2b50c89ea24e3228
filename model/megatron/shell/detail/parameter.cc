#include "model/megatron/shell/detail/parameter.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/patterns.h"
#include "model/megatron/shell/detail/scan.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::size_t most_trimmed = 4096;  // letters of a value: the work is their square

class ParameterReader {
 public:
  ParameterReader(const Letters& inside, Scope& scope) : text_(inside), scope_(scope) {}

  Parameter read() {
    length_ = text_.size() > 1 && text_[0].symbol == '#';
    if (length_) ++at_;
    take_name();
    if (name_.empty()) return {};
    take_key();
    find();
    if (length_) return length();
    return operate();
  }

 private:
  char symbol() const { return at_ < text_.size() ? text_[at_].symbol : '\0'; }

  void take_name() {
    const bool special = std::string_view("@*#?").find(symbol()) != std::string_view::npos && symbol() != '\0';
    if (special) {
      name_ = symbol() == '*' ? '@' : symbol();
      all_ = name_ == "@";
      joined_ = symbol() == '*';
      ++at_;
      return;
    }
    while (in_name(symbol())) name_ += text_[at_++].symbol;
  }

  void take_key() {
    if (symbol() != '[') return;
    const std::size_t first = at_ + 1;
    at_ = Scan(text_).brackets(at_, '[', ']');
    const Letters key = slice(text_, first, std::max(at_, first + 1) - 1);
    const std::string written = text_of(key);
    all_ = written == "@" || written == "*";
    joined_ = written == "*";
    if (all_) return;
    const auto name = element(name_, key, scope_);
    element_ = name.value_or(name_);
    if (!name) fields_ = Fields{kept_letters("$" + name_, line())};
  }

  // Finds the fields of the name; a scalar has its first one.
  void find() {
    if (fields_) return;
    const Fields* value = scope_.find(element_.empty() ? name_ : element_);
    if (value != nullptr) {
      fields_ = *value;
      if (!all_ && fields_->size() > 1) fields_->resize(1);
    } else if (!element_.empty()) {
      find_in_list();
    } else if (name_ == "@") {
      fields_ = Fields();
    }
  }

  void find_in_list() {
    const Fields* list = scope_.find(name_);
    const auto index = integer(std::string_view(element_).substr(name_.size() + 1, element_.size() - name_.size() - 2));
    if (list == nullptr) return;
    const auto open = std::ranges::find_if_not(*list, is_known);
    if (open != list->end()) {
      fields_ = Fields{*open};
    } else if (index) {
      const auto size = static_cast<std::int64_t>(list->size());
      const std::int64_t at = *index < 0 ? size + *index : *index;
      fields_ = Fields();
      if (at >= 0 && at < size) fields_->push_back((*list)[static_cast<std::size_t>(at)]);
    }
  }

  bool known() const { return fields_ && std::ranges::all_of(*fields_, is_known); }
  bool empty() const { return fields_ && std::ranges::all_of(*fields_, &Letters::empty); }

  Parameter result() {
    if (!known()) scope_.miss(name_);
    return {fields_, joined_, false};
  }
  static Parameter made(const std::string& text) { return {Fields{letters_of(text, 0)}, false, true}; }

  Parameter length() {
    if (!known()) {
      scope_.miss(name_);
      return {};
    }
    return made(std::to_string(all_ ? fields_->size() : fields_->empty() ? 0 : fields_->front().size()));
  }

  Parameter operate() {
    if (at_ == text_.size()) return result();
    const bool or_empty = symbol() == ':' && at_ + 1 < text_.size() &&
                          std::string_view("-=?+").find(text_[at_ + 1].symbol) != std::string_view::npos;
    if (or_empty) ++at_;
    const char sign = symbol();
    if (std::string_view("-=?+").find(sign) != std::string_view::npos) {
      argument_ = slice(text_, at_ + 1, text_.size());
      const bool missing = !fields_ || fields_->empty() || (or_empty && empty());
      return default_of(sign, missing);
    }
    if (known() && (sign == '#' || sign == '%')) return trim(sign);
    return unknown();
  }

  // An operation that is not read, or on a value that is not known, is kept as it is written.
  Parameter unknown() {
    scope_.miss(name_);
    return {};
  }

  Parameter default_of(char sign, bool missing) {
    if (sign == '+') {
      if (!fields_) scope_.take_default(name_, "", line());
      if (fields_ && !known()) return unknown();
      return missing ? Parameter{Fields()} : given();
    }
    if (!missing || sign == '?') return result();
    Parameter taken = given();
    if (!fields_) {
      std::string text;
      for (const Letters& field : *taken.fields) text += text_of(field);
      scope_.take_default(name_, text, line());
    }
    if (sign == '=')
      scope_.assign(element_.empty() ? name_ : element_, taken.fields->empty() ? Fields(1) : *taken.fields);
    return taken;
  }
  int line() const { return text_.empty() ? 0 : text_.front().line; }

  // The word behind the operator, with its quotes removed.
  Parameter given() { return {read_word(argument_, false, scope_).fields, false, true}; }

  Parameter trim(char sign) {
    const bool twice = at_ + 1 < text_.size() && text_[at_ + 1].symbol == sign;
    const Letters pattern = read_field(slice(text_, at_ + (twice ? 2 : 1), text_.size()), scope_);
    const auto too_long = [](const Letters& field) { return field.size() > most_trimmed; };
    if (!is_known(pattern) || std::ranges::any_of(*fields_, too_long)) return unknown();
    for (Letters& field : *fields_)
      field = trimmed(field, twice ? std::string(2, sign) : std::string(1, sign), pattern);
    return result();
  }

  const Letters& text_;
  Scope& scope_;
  std::size_t at_ = 0;
  std::string name_, element_;
  bool length_ = false, all_ = false, joined_ = false;
  std::optional<Fields> fields_;
  Letters argument_;
};

}  // namespace

Parameter read_parameter(const Letters& inside, Scope& scope) { return ParameterReader(inside, scope).read(); }

std::optional<std::string> element(const std::string& name, const Letters& key, Scope& scope) {
  const Letters field = read_field(key, scope);
  if (!is_known(field)) return std::nullopt;
  std::string text = text_of(field);
  const bool formula = !text.empty() && std::ranges::all_of(text, [](char symbol) {
    return in_name(symbol) || std::string_view("+-*/% ()").find(symbol) != std::string_view::npos;
  });
  // A name or a formula is a number in a list, and itself as the key of an associative array.
  const Fields* value = begins_name(text.empty() ? ' ' : text[0]) ? scope.find(text) : nullptr;
  const bool named = value != nullptr && scope.find(name) != nullptr;
  const bool computed = text.find_first_of("+*/%") != std::string::npos;
  if (formula && (named || computed)) {
    if (const auto number = read_number(letters_of(text, 0), scope)) text = std::to_string(*number);
  }
  return name + "[" + text + "]";
}

}  // namespace plumbline::model::megatron

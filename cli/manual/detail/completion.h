// What each shell reads to complete the command (cli/manual/completion.*), as parts of the library.
#pragma once

#include <string_view>

namespace plumbline::cli {

extern const std::string_view bash_completion;
extern const std::string_view zsh_completion;
extern const std::string_view fish_completion;

}  // namespace plumbline::cli

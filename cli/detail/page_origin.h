// What made a page.
#pragma once

#include <CLI/CLI.hpp>

#include "reports/html/page.h"

namespace plumbline::cli {

// Returns the verb with the arguments it was given, as a shell takes them, and the date: that of SOURCE_DATE_EPOCH
// (seconds since 1970) where the environment has it, else now.
reports::PageOrigin page_origin(const CLI::App& verb);

}  // namespace plumbline::cli

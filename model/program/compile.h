// From a plan to its step program.
#pragma once

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/program.h"
#include "model/program/routing.h"
#include "model/program/stage_library.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

// plan and layout must belong together (make_layout succeeded). The spread of the tokens over the expert-parallel
// ranks decides how many tokens a rank receives; whoever has it already gives it, since its estimate takes longer
// than all the rest. Errors: an unknown schedule; a schedule that does not exist for the layout (infeasible).
Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout);
Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout,
                            const RoutingSpread& spread);

// The same program of the parts of a library, which must be one for the plan's graphs; it gets what it lacks.
// `schedule` is built for the layout. The program has all blocks and stage kinds of the library, also those that no
// stage of this plan has; its templates are those that it uses, in the order of their first use, rank by rank.
StepProgram assemble(const Plan& plan, const Architecture& architecture, const Layout& layout, Schedule schedule,
                     StageLibrary& library);

// The blocks of a stage, as the library wants them.
BlockList block_list(const Plan& plan, const Architecture& architecture, const Layout& layout, std::int64_t stage);

}  // namespace plumbline::model

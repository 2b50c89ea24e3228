import { showPage } from "./page/frame";
import { readMadeBy, readResults } from "./result";
import { viewOf } from "./views";

showPage(readResults(), readMadeBy(), viewOf);

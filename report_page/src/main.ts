// Puts the page together.

import { readReport } from "./data";
import { Page } from "./page";

new Page(readReport()).start();

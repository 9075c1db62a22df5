// Puts the page together.

import { readData, Report, type Stored } from "./data";
import { Page } from "./page";
import { showSections } from "./sections";
import type { Sections } from "./sections_data";

const data = readData() as Stored | Sections;
if ("sections" in data) showSections(data);
else new Page(new Report(data)).start();

// Prints the public names in the sources of the TypeScript package, one a line, each after the type that it belongs to.
// Its arguments: the folder node_modules with the compiler, and the package's main module.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const [modules, index] = process.argv.slice(2);
const ts = createRequire(join(modules, "package.json"))("typescript");
const hidden = new Set([ts.SyntaxKind.PrivateKeyword, ts.SyntaxKind.ProtectedKeyword]);
const parsed = new Map();

/** Returns the syntax tree of a module. */
function sourceOf(path) {
  if (!parsed.has(path)) parsed.set(path, ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest, true));
  return parsed.get(path);
}

/** Returns the file of an imported module; undefined: the module is in another package. */
function resolved(from, specifier) {
  if (!specifier.text.startsWith(".")) return undefined;
  const path = join(dirname(from), specifier.text.replace(/\.js$/, ".ts"));
  return existsSync(path) ? path : undefined;
}

/** Prints the exports of a module: those in `names`, or all. */
function tell(path, names) {
  for (const statement of sourceOf(path).statements) {
    if (ts.isExportDeclaration(statement) && statement.moduleSpecifier) {
      const target = resolved(path, statement.moduleSpecifier);
      if (statement.exportClause === undefined) {
        if (target) tell(target, names);
        continue;
      }
      const chosen = (statement.exportClause.elements ?? []).filter((each) => names === undefined || names.has(each.name.text));
      for (const each of chosen) console.log(`- ${each.name.text}`);
      if (target && chosen.length > 0) tell(target, new Set(chosen.map((each) => (each.propertyName ?? each.name).text)));
      continue;
    }
    if (!statement.modifiers?.some((each) => each.kind === ts.SyntaxKind.ExportKeyword)) continue;
    const declarations = ts.isVariableStatement(statement) ? statement.declarationList.declarations : [statement];
    for (const each of declarations) {
      if (each.name !== undefined && (names === undefined || names.has(each.name.text))) describe(each, each.name.text);
    }
  }
}

/** Prints the names of one declaration, of its members, and of their parameters. */
function describe(declaration, owner) {
  console.log(`- ${owner}`);
  parametersOf(declaration, owner);
  inherited(declaration, owner);
  const type = declaration.type;
  const parts = type && ts.isIntersectionTypeNode(type) ? type.types : type ? [type] : [];
  const literals = parts.filter((each) => ts.isTypeLiteralNode(each)).flatMap((each) => [...each.members]);
  for (const member of [...(declaration.members ?? []), ...literals]) {
    if (member.modifiers?.some((each) => hidden.has(each.kind))) continue;
    if (member.name !== undefined && !ts.isPrivateIdentifier(member.name)) console.log(`${owner} ${member.name.text ?? member.name.getText()}`);
    parametersOf(member, owner);
  }
}

/** Prints the base types of a declaration that are in its own module: their members are public even if they are not exported. */
function inherited(declaration, owner) {
  for (const clause of declaration.heritageClauses ?? []) {
    for (const { expression } of clause.types) {
      const found = declaration.getSourceFile().statements.find((each) => each !== declaration && each.name?.text === expression.getText());
      if (found !== undefined) describe(found, owner);
    }
  }
}

/** Prints the names of parameters, and of the members of those that are object literals. */
function parametersOf(declaration, owner) {
  for (const parameter of declaration.parameters ?? []) {
    if (ts.isIdentifier(parameter.name)) console.log(`${owner} ${parameter.name.text}`);
    if (parameter.type !== undefined && ts.isTypeLiteralNode(parameter.type)) {
      for (const each of parameter.type.members) if (each.name !== undefined) console.log(`${owner} ${each.name.getText()}`);
    }
  }
}

tell(index, undefined);

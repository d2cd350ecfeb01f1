import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.MethodTree;
import com.sun.source.tree.ModifiersTree;
import com.sun.source.tree.Tree;
import com.sun.source.tree.VariableTree;
import com.sun.source.util.JavacTask;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.lang.model.element.Modifier;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;

/** Prints the public names in the sources of a package, one a line, each after the class that it belongs to. */
public final class Words {
    private static final Pattern WORD = Pattern.compile("\\w+");

    private Words() {
    }

    /** {@code arguments}: the directory of the package. */
    public static void main(String[] arguments) throws IOException {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        try (var files = compiler.getStandardFileManager(null, null, null); Stream<Path> found = Files.list(Path.of(arguments[0]))) {
            List<Path> sources = found.filter(path -> path.toString().endsWith(".java")).sorted().toList();
            JavacTask task = (JavacTask) compiler.getTask(null, files, null, null, null, files.getJavaFileObjectsFromPaths(sources));
            for (CompilationUnitTree unit : task.parse()) {
                for (Tree type : unit.getTypeDecls()) {
                    if (type instanceof ClassTree each && isPublic(each.getModifiers())) {
                        tell(each);
                    }
                }
            }
        }
    }

    private static void tell(ClassTree type) {
        String owner = type.getSimpleName().toString();
        System.out.println("- " + owner);
        boolean open = type.getKind() == Tree.Kind.INTERFACE || type.getKind() == Tree.Kind.ANNOTATION_TYPE;
        for (Tree member : type.getMembers()) {
            if (member instanceof ClassTree inner && (open || isPublic(inner.getModifiers()))) {
                tell(inner);
            } else if (member instanceof MethodTree method && (open || isPublic(method.getModifiers()))) {
                say(owner, method.getName().toString());
                say(owner, String.valueOf(method.getReturnType()));
                method.getParameters().forEach(parameter -> say(owner, parameter.getType() + " " + parameter.getName()));
            } else if (member instanceof VariableTree field && (open || isPublic(field.getModifiers()) || isComponent(type, field))) {
                say(owner, field.getName().toString());
            }
        }
    }

    /** Returns whether a field is a component of a record, which is public although the field is private. */
    private static boolean isComponent(ClassTree type, VariableTree field) {
        return type.getKind() == Tree.Kind.RECORD && !field.getModifiers().getFlags().contains(Modifier.STATIC);
    }

    private static boolean isPublic(ModifiersTree modifiers) {
        return modifiers.getFlags().contains(Modifier.PUBLIC);
    }

    private static void say(String owner, String text) {
        WORD.matcher(text).results().forEach(word -> System.out.println(owner + " " + word.group()));
    }
}
